# SPDX-License-Identifier: Apache-2.0
"""How a run is told to stop: Ctrl-C, SIGTERM, SIGHUP, or the end of the `make` that started it.

make hands a SIGTERM on to its recipe. A SIGHUP or SIGINT that reaches make alone it does not: it then waits for the
recipe to end by itself, within its signal handler, and that is seen in /proc: the signal is blocked, its handler gone.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LOOK_S = 0.5


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end what is inside as Ctrl-C does.

    A SIGHUP that was to be ignored (nohup) stays ignored. Where make started us its end, and that it wants to end, is a
    SIGTERM to us, for nobody would be left to stop us; without make, who ends the shell may mean the run to go on.
    """

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = [signal.SIGTERM, *([] if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else [signal.SIGHUP])]
    previous = {number: signal.signal(number, stop) for number in numbers}
    over = threading.Event()
    if "MAKELEVEL" in os.environ:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
        threading.Thread(target=_heed_make, args=(over,), daemon=True).start()
    try:
        yield
    finally:
        over.set()
        for number, handler in previous.items():
            signal.signal(number, handler)


def _heed_make(over: threading.Event) -> None:
    make = _make_above()
    while make is not None and not over.wait(_LOOK_S):
        if _wants_to_end(make):
            os.kill(os.getpid(), signal.SIGTERM)
            return


def _make_above() -> Path | None:
    """The process of make: our parent, or that of the shell which runs us."""
    pid = os.getppid()
    for _ in range(2):
        process = Path(f"/proc/{pid}")
        try:
            _, name, rest = re.split(r"\((.*)\)", (process / "stat").read_text(), maxsplit=1, flags=re.DOTALL)
        except (OSError, ValueError):
            return None
        if name in {"make", "gmake"}:
            return process
        pid = int(rest.split()[1])
    return None


def _wants_to_end(make: Path) -> bool:
    """Return whether it is in the handler of a signal that ends it."""
    try:
        status = dict(line.split(":\t", 1) for line in (make / "status").read_text().splitlines() if ":\t" in line)
    except OSError:
        return True
    blocked, caught = (int(status[name], 16) for name in ("SigBlk", "SigCgt"))
    return any((blocked & ~caught) >> (number - 1) & 1 for number in _STOPPING)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Keep an impatient second signal from cutting the tidying short."""
    previous = {number: signal.signal(number, signal.SIG_IGN) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

# SPDX-License-Identifier: Apache-2.0
"""How a run is told to stop: Ctrl-C, SIGTERM, SIGHUP, or the death of the `make` that started it."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def stoppable() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end what is inside as Ctrl-C does.

    A SIGHUP that was to be ignored (nohup) stays ignored. Where make started us its end is a SIGTERM to us, for nobody
    would be left to stop us; without make, who ends the shell may mean the run to go on.
    """

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    numbers = [signal.SIGTERM, *([] if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else [signal.SIGHUP])]
    previous = {number: signal.signal(number, stop) for number in numbers}
    if "MAKELEVEL" in os.environ:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Keep an impatient second signal from cutting the tidying short."""
    previous = {number: signal.signal(number, signal.SIG_IGN) for number in _STOPPING}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)

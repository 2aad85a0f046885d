# SPDX-License-Identifier: Apache-2.0
"""Programs that must not outlive the host test, whatever ends it."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from hosts.errors import HostTestError

_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def run(command: Sequence[str], log: Path, env: dict[str, str] | None = None, cwd: Path | None = None) -> None:
    """Run a program to its end, its words in the log; raise HostTestError with its last ones if it fails."""
    began = log.stat().st_size if log.exists() else 0
    process = start(command, log, env, cwd)
    try:
        code = process.wait()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)  # with what it started: mmdebstrap's apt, pip's own pip
        process.wait()
        raise
    if code:
        said = log.read_bytes()[began:].decode(errors="replace").strip()
        raise HostTestError(f"{Path(command[0]).name} ended with {code}; see {log}:\n{said[-1500:]}")


def start(
    command: Sequence[str], log: Path, env: dict[str, str] | None = None, cwd: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start a program that is killed with us, in a session of its own so that Ctrl-C is for us alone."""
    with log.open("ab") as words:
        return subprocess.Popen(
            list(command), stdin=subprocess.DEVNULL, stdout=words, stderr=subprocess.STDOUT, cwd=cwd, env=env,
            start_new_session=True, preexec_fn=_die_with_parent,  # noqa: PLW1509 - we have one thread
        )  # fmt: skip


def stop(process: subprocess.Popen[bytes], patience_s: float = 20) -> None:
    """End a program: asked first, then killed."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def _die_with_parent() -> None:
    """Runs in the child before its program: prctl(2). A lower priority, for a developer's own work goes first."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(19)

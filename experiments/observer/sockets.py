# SPDX-License-Identifier: Apache-2.0
"""TCP_NODELAY of another process's connections, asked of the kernel.

No file or diagnostic message shows Nagle's algorithm, so the descriptor itself is borrowed: pidfd_getfd(2)
duplicates it (as ptrace could; Linux 5.6, CAP_SYS_PTRACE) and getsockopt(2) asks the very socket.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import stat
from pathlib import Path

from experiments.observer.state import Connection

_LIBC = ctypes.CDLL(None, use_errno=True)
_PIDFD_GETFD = 438  # the same number on every architecture, as all system calls since 424


def connections(pid: int) -> list[Connection]:
    """Return `peer`, `local` and `nodelay` of every connected TCP socket; raises OSError where it may not look."""
    sockets = []
    pidfd = os.pidfd_open(pid)
    try:
        # Descriptors are tried, not listed: /proc/PID/fd opens to the process's own user only.
        for fd in range(_slots(pid)):
            copy = _LIBC.syscall(_PIDFD_GETFD, pidfd, fd, 0)
            number = ctypes.get_errno()
            if copy >= 0:
                connection = _connection(copy)
                sockets += [connection] if connection else []
            elif number != errno.EBADF:
                raise OSError(number, f"pidfd_getfd: {os.strerror(number)}")
    finally:
        os.close(pidfd)
    return sockets


def _slots(pid: int) -> int:
    """No descriptor of the process is as high as this: FDSize of proc_pid_status(5)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("FDSize:"))


def _connection(copy: int) -> Connection | None:
    if not stat.S_ISSOCK(os.fstat(copy).st_mode):
        os.close(copy)
        return None
    with socket.socket(fileno=copy) as sock:
        if sock.family not in (socket.AF_INET, socket.AF_INET6) or sock.type != socket.SOCK_STREAM:
            return None
        try:
            peer = sock.getpeername()
        except OSError:
            return None  # it listens, or its peer has gone
        nodelay = bool(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        local = sock.getsockname()
    return {"local": f"{local[0]}:{local[1]}", "peer": f"{peer[0]}:{peer[1]}", "nodelay": nodelay}

# SPDX-License-Identifier: Apache-2.0
"""TCP_NODELAY of another process's connections, asked of the kernel.

No file or diagnostic message shows Nagle's algorithm, so the descriptor itself is borrowed: pidfd_getfd(2)
duplicates it (as ptrace could; Linux 5.6, CAP_SYS_PTRACE) and getsockopt(2) asks the very socket.
"""

from __future__ import annotations

import ctypes
import os
import socket
from pathlib import Path
from typing import Any

_PIDFD_GETFD = 438  # the same number on every architecture, as all system calls since 424


def connections(pid: int) -> list[dict[str, Any]]:
    """Give `peer`, `local` and `nodelay` of every connected TCP socket; raises OSError where it may not look."""
    found = []
    pidfd = os.pidfd_open(pid)
    try:
        for entry in sorted(Path(f"/proc/{pid}/fd").iterdir(), key=lambda path: int(path.name)):
            if _is_socket(entry):
                connection = _connection(pidfd, int(entry.name))
                found += [connection] if connection else []
    finally:
        os.close(pidfd)
    return found


def _is_socket(entry: Path) -> bool:
    try:
        return str(entry.readlink()).startswith("socket:")
    except OSError:
        return False  # closed meanwhile


def _connection(pidfd: int, fd: int) -> dict[str, Any] | None:
    copy = ctypes.CDLL(None, use_errno=True).syscall(_PIDFD_GETFD, pidfd, fd, 0)
    if copy < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"pidfd_getfd: {os.strerror(number)}")
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

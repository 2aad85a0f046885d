# SPDX-License-Identifier: Apache-2.0
"""One of us at a time: two runs on one machine would be each other's contention, without a label.

The lock is an abstract Unix socket (unix(7)): a name in the kernel that depends on no folder and no environment, that
any user may see, and that goes with its holder however that ends. A lock file would belong to its first user, and with
fs.protected_regular=2 shut root out of a user's file in /tmp. Whoever finds the name taken asks the kernel who listens
there.

The name belongs to this machine's network namespace. Where DOCKER_HOST names a far engine, the lock covers the runners
of this machine, not those of others that use the same engine; what those leave there is seen before a run starts.
"""

from __future__ import annotations

import contextlib
import pwd
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

from experiments.errors import TestbedError

_NAME = "\0mqtt-contention-testbed"

_held: list[socket.socket] = []
"""This process's own; several runs in a row keep it from the first to the last."""


class BusyError(TestbedError):
    """Somebody else holds the lock."""


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Hold the lock; raises BusyError, which names the holder. Inside itself it is held already."""
    if _held:
        yield
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as lock:
        try:
            lock.bind(_NAME)
        except OSError:
            raise BusyError(f"another run is measuring on this host{_holder()}; wait for it or stop it") from None
        lock.listen()
        _held.append(lock)
        try:
            yield
        finally:
            _held.clear()


def _holder() -> str:
    """Return `: process 7 of anna (python -m experiments run 1)`, or nothing where it has just ended."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        asking.settimeout(1)
        try:
            asking.connect(_NAME)
            pid, uid, _ = struct.unpack("3i", asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        except OSError:
            return ""
    return f": process {pid} of {_user(uid)}{_command(pid)}"


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"


def _command(pid: int) -> str:
    """Return what it was started as; other users' text, so only what can be printed."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
    except OSError:
        return ""
    line = "".join(character for character in " ".join(words).strip() if character.isprintable())
    return f" ({line[:80]})" if line else ""

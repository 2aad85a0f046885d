# SPDX-License-Identifier: Apache-2.0
"""`rooted.py ROOT [FILE [NAME=VALUE …] PROGRAM … AT]`: become PROGRAM where ROOT is the file system and AT is FILE.

What a container is without an engine, but for its network and its process ids, which stay this machine's: the process
is the same from start to end, can write to /tmp and /state only, which are its own and in memory, and ends with its
parent. Started by root it ends as nobody; an ordinary user needs a kernel with user namespaces. With ROOT alone it only
tries. What cannot be done is one line on standard error and exit status 1.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import sys
import warnings  # noqa: F401 - os.execvpe imports it, and where that is called there is no Python
from pathlib import Path

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000  # sched.h
_RDONLY, _NOSUID, _NODEV, _NOEXEC, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18  # sys/mount.h
_PR_SET_PDEATHSIG, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 24, 38  # linux/prctl.h
_DEVICES = ("null", "zero", "full", "random", "urandom")
_NOBODY = 65534

_LIBC = ctypes.CDLL(None, use_errno=True)


def enter(root: Path, file: str | None, at: str) -> None:
    """Make `root` this process's file system, where `at` is `file`; raise OSError."""
    _unshare()
    _mount("none", Path("/"), _REC | _PRIVATE)  # nothing below shows anywhere else
    _mount(root, root, _BIND)
    _mount("/proc", root / "proc", _BIND | _REC)
    _mount("tmpfs", root / "dev", _NOSUID | _NOEXEC, "tmpfs", "mode=0755")
    for name in _DEVICES:
        (root / "dev" / name).touch()
        _mount(f"/dev/{name}", root / "dev" / name, _BIND)
    for name, flags in (("tmp", 0), ("state", _NOEXEC)):  # Java unpacks libraries of machine code to /tmp
        _mount("tmpfs", root / name, _NOSUID | _NODEV | flags, "tmpfs", "mode=1777")
    if file:
        _mount(file, root / at.lstrip("/"), _BIND)
        _seal(root / at.lstrip("/"))
    _seal(root)
    os.chroot(root)
    os.chdir("/")


def drop() -> None:
    """Keep the least: nobody instead of root, no capability, now and of any program; raise OSError."""
    parent = os.getppid()
    for capability in itertools.count():
        if _LIBC.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0):
            break  # the kernel knows no more
    if os.geteuid() == 0:
        os.setgroups([])
        os.setresgid(_NOBODY, _NOBODY, _NOBODY)
        os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    _LIBC.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # a change of user took it away
    if os.getppid() != parent:
        sys.exit(1)  # which was killed meanwhile


def _unshare() -> None:
    """Take mounts of our own, as root, or within a user namespace in which we stay who we are."""
    user, group = os.geteuid(), os.getegid()
    _checked(_LIBC.unshare(_CLONE_NEWNS | (_CLONE_NEWUSER if user else 0)), "unshare")
    if user:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def _mount(source: str | Path, target: Path, flags: int, kind: str = "none", options: str = "") -> None:
    words = [str(word).encode() for word in (source, target, kind)]
    _checked(_LIBC.mount(*words, ctypes.c_ulong(flags), options.encode()), f"mount {target}")


def _seal(target: Path) -> None:
    """Make a mount read-only; in a user namespace what it was mounted without before must not come back."""
    kept = _NOEXEC if os.statvfs(target).f_flag & os.ST_NOEXEC else 0
    _mount("none", target, _REMOUNT | _BIND | _RDONLY | _NOSUID | _NODEV | kept)


def _checked(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), what)


def main() -> None:
    """Do what the module says."""
    root, *rest = sys.argv[1:]
    file, rest = (rest[0], rest[1:]) if rest else (None, [])
    environment = dict(word.split("=", 1) for word in itertools.takewhile(lambda word: "=" in word, rest))
    words = rest[len(environment) :]
    try:
        enter(Path(root), file, words[-1] if words else "")
        drop()
        if words:
            os.execvpe(words[0], words, environment)  # noqa: S606
    except OSError as error:
        sys.exit(f"{error.strerror} ({error.filename})" if error.filename else str(error))


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Programs of another architecture on this host: qemu-user, registered with the kernel (binfmt_misc)."""

from __future__ import annotations

from pathlib import Path

from hosts import processes

_REGISTER = Path("/proc/sys/fs/binfmt_misc")
_NAMES = {"amd64": "x86_64", "arm64": "aarch64"}


def program(architecture: str) -> str:
    """The emulator for Debian's name of an architecture."""
    return f"qemu-{_NAMES[architecture]}-static"


def register(architecture: str, log: Path) -> None:
    """Let the kernel run such programs; where Debian's packages were installed under systemd it does already."""
    name = f"qemu-{_NAMES[architecture]}"
    if not (_REGISTER / "register").exists():
        processes.run(["mount", "-t", "binfmt_misc", "binfmt_misc", str(_REGISTER)], log)
    if not (_REGISTER / name).exists():
        processes.run(["update-binfmts", "--enable", name], log)

# SPDX-License-Identifier: Apache-2.0
"""The machines that can be booted, a file each; a new one is there by being in this folder."""

from __future__ import annotations

import importlib
import pkgutil
import platform
from dataclasses import dataclass

from hosts.errors import HostTestError

_MACHINES = {"amd64": "x86_64", "arm64": "aarch64"}


@dataclass(frozen=True)
class Guest:
    """A host to try the project on: what Debian packages it is made of, and the machine that runs it."""

    name: str
    suite: str
    """Debian's name of the release."""
    architecture: str
    """Debian's name of it."""
    kernel: str
    """The package of its stock kernel."""
    program: str
    """QEMU's program for this architecture."""
    emulated: tuple[str, ...]
    """QEMU's options for machine and CPU under emulation."""
    virtualised: tuple[str, ...]
    """The same under KVM."""
    console: str
    memory_mb: int
    boot_s: int
    """How long it takes to boot under emulation on a quiet host; ten times that is given up."""
    engine: tuple[str, ...] = ("docker.io", "docker-cli", "docker-compose", "docker-buildx")
    """The packages of its container engine."""
    containers: bool = True
    """Can the project run containers there?"""

    @property
    def native(self) -> bool:
        """Say whether this host's own CPU could run it."""
        return platform.machine() == _MACHINES[self.architecture]


def names() -> list[str]:
    """Give every HOST that can be asked for."""
    return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__))


def named(name: str) -> Guest:
    """Give the guest of this name; raise HostTestError."""
    if name not in names():
        raise HostTestError(f"HOST={name}: no such machine; allowed are {', '.join(names())}", exit_code=2)
    guest: Guest = importlib.import_module(f"{__name__}.{name.replace('-', '_')}").GUEST
    return guest

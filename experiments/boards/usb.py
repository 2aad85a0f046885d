# SPDX-License-Identifier: Apache-2.0
"""Real hardware on a USB serial port of this host."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

from experiments.boards import Board, StartBoard
from experiments.errors import BadInputError

INSIDE = "/dev/board"
_PSEUDO_TERMINALS = range(136, 144)
"""Major numbers, as Linux' Documentation/admin-guide/devices.txt has them."""


class Usb(Board):
    """`usb:/dev/ttyUSB0`: a Mega 2560 with our sketch on it."""

    kind = "usb"
    serves = False

    def check(self) -> None:
        """The port must be here now, and be one: nothing should start without it, or hand another device over."""
        if not self.argument.startswith("/dev/"):
            raise BadInputError("DEVICE", str(self), "say which port, e.g. DEVICE=usb:/dev/ttyUSB0")
        try:
            device = self._device()
            there = device.stat()
        except (OSError, ValueError):  # ValueError: a name with a NUL in it
            raise BadInputError(
                "DEVICE", str(self), f"{self.argument} is not there; `make doctor` lists serial ports"
            ) from None
        if not (device.is_relative_to("/dev") and stat.S_ISCHR(there.st_mode) and _is_serial(there.st_rdev)):
            raise BadInputError("DEVICE", str(self), f"{device} is no serial port; `make doctor` lists those there are")

    def compose(self) -> dict[str, Any]:
        """Pass the device to the Pi's container, and the group that may open it."""
        device = self._device()  # by its own name: /dev/serial/by-path has colons, which Compose takes for its own
        return {
            "pi": {
                "devices": [f"{device}:{INSIDE}"],
                "group_add": [str(device.stat().st_gid)],
                "environment": {"SERIAL_PORT": INSIDE},
            }
        }

    def _device(self) -> Path:
        return Path(self.argument).resolve(strict=True)

    def on_host(self, start: StartBoard) -> str | None:  # noqa: ARG002
        """The port is there already."""
        return self.argument


def _is_serial(number: int) -> bool:
    """A port with hardware behind it, or a pseudo-terminal; not a console and not the terminal we run in."""
    if os.major(number) in _PSEUDO_TERMINALS:
        return True
    known = Path(f"/sys/dev/char/{os.major(number)}:{os.minor(number)}")
    return (known / "subsystem").resolve().name == "tty" and (known / "device").exists()

# SPDX-License-Identifier: Apache-2.0
"""Real hardware on a USB serial port of this host."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.boards import Board, StartBoard
from experiments.errors import BadInputError

INSIDE = "/dev/board"


class Usb(Board):
    """`usb:/dev/ttyUSB0`: a Mega 2560 with our sketch on it."""

    kind = "usb"
    serves = False

    def check(self) -> None:
        """The device must be here now: nothing should start without it."""
        if not self.argument.startswith("/dev/"):
            raise BadInputError("DEVICE", str(self), "say which port, e.g. DEVICE=usb:/dev/ttyUSB0")
        if not Path(self.argument).exists():
            raise BadInputError("DEVICE", str(self), f"{self.argument} is not there; `make doctor` lists serial ports")

    def compose(self) -> dict[str, Any]:
        """Pass the device to the Pi's container, and the group that may open it."""
        group = str(Path(self.argument).stat().st_gid)
        return {
            "pi": {
                "devices": [f"{self.argument}:{INSIDE}"],
                "group_add": [group],
                "environment": {"SERIAL_PORT": INSIDE},
            }
        }

    def on_host(self, start: StartBoard) -> str | None:  # noqa: ARG002
        """The port is there already."""
        return self.argument

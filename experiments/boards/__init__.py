# SPDX-License-Identifier: Apache-2.0
"""What answers the Pi over serial. `DEVICE=kind` or `DEVICE=kind:argument`; one file a kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from experiments.errors import BadInputError
from experiments.registry import Choice, Registry, read

StartBoard = Callable[[list[str]], str]
"""Starts the board's program on the host, waits for its line `ready PATH`, returns PATH."""

REGISTRY: Registry[type[Board]] = Registry(__name__)


@dataclass(frozen=True)
class Board(Choice):
    """A kind of board; subclasses say how each placement gets it."""

    serves: ClassVar[bool] = True
    """Does the stand run a program for it? That obeys signals, as faults send them; see firmware/README.md."""

    def __init_subclass__(cls) -> None:
        REGISTRY.add(cls.kind, cls)

    def check(self) -> None:
        """Raise BadInputError where the argument does not fit this kind."""
        if self.argument:
            raise BadInputError("DEVICE", str(self), f"{self.kind} takes no argument; say DEVICE={self.kind}")

    def compose(self) -> dict[str, Any]:
        """What the Compose file's services need for this board, by service."""
        return {}

    def on_host(self, start: StartBoard) -> str | None:
        """Start the board as a plain process; returns the serial port, None when there is none."""
        raise NotImplementedError


def parse(text: str) -> Board:
    """Read `kind[:argument]`; raise BadInputError."""
    kinds = REGISTRY.all()
    return read("DEVICE", text, kinds, f"allowed are {', '.join(kinds)} (usb as usb:/dev/ttyUSB0)")

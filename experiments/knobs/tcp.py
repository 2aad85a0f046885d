# SPDX-License-Identifier: Apache-2.0
"""`TCP=nodelay|nagle`: Nagle's algorithm on every measured connection, at both its ends."""

from __future__ import annotations

from typing import Any

from experiments.knobs import Knob, Service
from experiments.observer.state import State


class NoDelay(Knob):
    """Set by the programs themselves, from the Compose file's variable TCP; proved on their sockets."""

    kind = "nodelay"
    field = "tcp"
    variable = "TCP"

    def check(self) -> None:
        """It has no argument."""
        if self.argument:
            raise self.bad(f"{self.kind} takes no value")

    def expected(self) -> Any:
        """On every connection."""
        return self.kind

    @classmethod
    def observed(cls, state: State) -> Any:
        """Return `nodelay` or `nagle`, both where connections differ, None without any connection."""
        if "connections_error" in state:
            return f"unreadable without CAP_SYS_PTRACE ({state['connections_error']})"
        variants = sorted({"nodelay" if connection["nodelay"] else "nagle" for connection in state["connections"]})
        return (variants[0] if len(variants) == 1 else variants) if variants else None

    @classmethod
    def untouched(cls, service: Service) -> Any:  # noqa: ARG003
        """Services that disturb may connect as they like."""
        return NotImplemented


class Nagle(NoDelay):
    """As in the thesis."""

    kind = "nagle"

# SPDX-License-Identifier: Apache-2.0
"""Real-time policies, really applied: `fifo:N` and `rr:N` (1 to 99); see sched(7)."""

from __future__ import annotations

from typing import Any

from experiments.knobs.scheduling import Scheduling, describe


class Fifo(Scheduling):
    """Runs until it sleeps, before every ordinary task."""

    kind = "fifo"

    def check(self) -> None:
        """Priorities are 1 to 99; above 90 the kernel's own threads suffer."""
        self.whole(1, 99)

    def settings(self) -> list[tuple[str, Any]]:
        """Set from outside: the service itself needs no privilege."""
        return [(self.kind, int(self.argument))]

    def expected(self) -> Any:
        """Every thread at this policy and priority."""
        return describe(f"SCHED_{self.kind.upper()}", int(self.argument), 0)


class RoundRobin(Fifo):
    """As fifo, but equals take turns."""

    kind = "rr"

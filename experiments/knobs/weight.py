# SPDX-License-Identifier: Apache-2.0
"""`weight:N`: a control group's share of contended CPU time, on Docker's scale (1024 is everyone's default)."""

from __future__ import annotations

from typing import Any

from experiments.knobs import Knob, Service, State

DEFAULT = 1024


class Weight(Knob):
    """cpu.shares, or cpu.weight on cgroup v2, which the engine converts to."""

    kind = "weight"
    field = "weight"
    containers_only = True

    def check(self) -> None:
        """As Docker takes it."""
        self.whole(2, 262_144)

    def compose(self) -> dict[str, Any]:
        """Compose's name for it."""
        return {"cpu_shares": int(self.argument)}

    def expected(self) -> Any:
        """Within what the conversion to cgroup v2's coarser scale and back leaves."""
        return _coarse(int(self.argument))

    @classmethod
    def observed(cls, state: State) -> Any:
        """Read from the service's own group."""
        weight = state["weight"]
        return None if weight is None else _coarse(weight)

    @classmethod
    def untouched(cls, service: Service) -> Any:  # noqa: ARG003
        """Every group's default."""
        return _coarse(DEFAULT)


def _coarse(shares: int) -> int:
    """Give the weight of cgroup v2 (1 to 10000) that shares convert to, by runc's formula."""
    return 1 + (shares - 2) * 9999 // 262_142

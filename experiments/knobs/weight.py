# SPDX-License-Identifier: Apache-2.0
"""`weight:N`: a control group's share of contended CPU time, on Docker's scale (1024 is everyone's default)."""

from __future__ import annotations

import math
from typing import Any

from experiments.knobs import Knob, Service
from experiments.observer.state import State

DEFAULT = 1024
_DEFAULTS = {("shares", DEFAULT), ("weight", 100)}
_UNTOUCHED = "default"


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
        """In shares; see `agrees` for cgroup v2."""
        return _say("shares", int(self.argument))

    def agrees(self, observed: Any) -> bool:
        """These very shares, or a weight that some runtime converts them to."""
        shares = int(self.argument)
        if observed == _UNTOUCHED:  # what every group has anyway proves nothing, unless it was asked for
            return shares == DEFAULT
        return observed in {self.expected(), *(_say("weight", weight) for weight in _converted(shares))}

    @classmethod
    def observed(cls, state: State) -> Any:
        """Read from the service's own group; one without a weight competes as any other."""
        return _say(*(state["weight"] or ("shares", DEFAULT)))

    @classmethod
    def untouched(cls, service: Service) -> Any:  # noqa: ARG003
        """Every group's default."""
        return _UNTOUCHED


def _say(name: str, value: int) -> str:
    return _UNTOUCHED if (name, value) in _DEFAULTS else f"{name} {value}"


def _converted(shares: int) -> set[int]:
    """Return the weights of cgroup v2 (1 to 10000) that runtimes convert shares (2 to 262144) to.

    runc up to 1.3 scaled linearly, by which 1024 became 39; since then a quadratic in log2 meets both defaults
    (opencontainers/cgroups, ConvertCPUSharesToCgroupV2Value).
    """
    power = math.log2(shares)
    exponent = (power * power + 125 * power) / 612 - 7 / 34
    return {1 + (shares - 2) * 9999 // 262_142, min(10_000, math.ceil(10**exponent))}

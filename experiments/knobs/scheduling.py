# SPDX-License-Identifier: Apache-2.0
"""Policy, priority and nice of every thread: the field that `fifo`, `rr`, `nice`, `flags` and `none` are about."""

from __future__ import annotations

from typing import Any

from experiments.knobs import Knob, Service
from experiments.observer.state import State


class Scheduling(Knob):
    """All threads of a service must agree; one that does not is an answer of its own."""

    field = "priority"

    @classmethod
    def observed(cls, state: State) -> Any:
        """Return `POLICY priority/nice`, or every variant there is where threads differ."""
        variants = sorted({describe(t["policy"], t["priority"], t["nice"]) for t in state["threads"]})
        return variants[0] if len(variants) == 1 else variants

    @classmethod
    def untouched(cls, service: Service) -> Any:  # noqa: ARG003
        """What every process starts with."""
        return describe("SCHED_OTHER", 0, 0)

    def expected(self) -> Any:
        """Nothing set, unless a kind says more."""
        return describe("SCHED_OTHER", 0, 0)


class Untouched(Scheduling):
    """`none`: as every process starts."""

    kind = "none"

    def check(self) -> None:
        """It has no argument."""
        if self.argument:
            raise self.bad("none takes no value")


def describe(policy: str, priority: int, nice: int) -> str:
    """Write scheduling as proofs and tables show it."""
    if policy in ("SCHED_FIFO", "SCHED_RR"):
        return f"{policy} {priority}"
    return policy if nice == 0 else f"{policy} nice {nice}"

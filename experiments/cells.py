# SPDX-License-Identifier: Apache-2.0
"""Conditions and cells: what the stand is brought to, and what is measured there. A family derives its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

from experiments import faults, knobs
from experiments.contentions import Contention
from experiments.errors import BadInputError
from experiments.faults import Fault, Place
from experiments.knobs import Knob, Knobs


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What the stand is brought to before a repetition of a cell."""

    contention: Contention | None = None
    knobs: Knobs = ()
    fault: Fault | None = None

    def undisturbed(self) -> Self:
        """The same with nothing that disturbs or breaks."""
        return replace(self, contention=None, fault=None)

    def standing(self) -> Self:
        """The same as the stand is brought up for: what breaks needs nothing beforehand, unless it has a helper."""
        needs_more = self.fault is not None and (self.fault.helper or self.fault.needs_store)
        return self if needs_more else replace(self, fault=None)

    def measured(self) -> list[str]:
        """The services of the family that must run under these conditions."""
        raise NotImplementedError

    def services(self) -> list[str]:
        """The services that must run."""
        return [*self.measured(), *([self.contention.role.name] if self.contention else [])]

    def each_knob(self) -> Iterator[tuple[str, Knob]]:
        """Yield every knob with the service that it is set on."""
        return ((service, knob) for service, chosen in self.knobs for knob in chosen)

    def place(self, *, containers: bool) -> Place:
        """Where a fault is asked for."""
        return Place(containers)

    def record(self) -> dict[str, dict[str, str]]:
        """Return `knobs` in bundle.json: by service, what was asked of which field."""
        return {service: {knob.field: str(knob) for knob in chosen} for service, chosen in self.knobs}

    def require_services(self) -> None:
        """A knob on what does not run would be a label without a fact; raise BadInputError."""
        services = self.services()
        for service, chosen in self.knobs:
            if service not in services:
                value = f"{service}={knobs.record(chosen)}"
                raise BadInputError("PRIORITY", value, f"here run only {', '.join(services)}")


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A scenario's conditions at one value of each axis: what one row group of the table is about."""

    scenario: str
    interval_ms: int
    conditions: Conditions
    messages: int
    timeout_ms: int
    arm: str = ""
    placement: str = "docker"
    fault_at_ms: int | None = None
    """When its fault comes, after the first counted cycle; None without one."""

    def describe(self) -> str:
        """Name the cell in progress and errors."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise BadInputError where no stand can do it, whatever the placement."""

    def record(self, index: int) -> dict[str, Any]:
        """Return the entry of `plan.cells` in bundle.json: its value on each axis of its family is a field."""
        return {
            "cell": index, "scenario": self.scenario, "arm": self.arm, "placement": self.placement,
            "interval_ms": self.interval_ms, "messages": self.messages, "timeout_ms": self.timeout_ms,
            "contention": str(self.conditions.contention or "") or None, "knobs": self.conditions.record(),
            "fault": str(self.conditions.fault or "") or None, "fault_at_ms": self.fault_at_ms,
        }  # fmt: skip


def fault_at_ms(fault: Fault | None, interval_ms: int, messages: int, asked_ms: int | None) -> int | None:
    """Return when the fault of a cell comes; raise BadInputError where the repetition is too short for it."""
    if fault is None:
        return None
    at_ms = faults.at_ms(interval_ms, messages, asked_ms)
    fault.check_length(at_ms, interval_ms, messages)
    return at_ms

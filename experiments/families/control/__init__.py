# SPDX-License-Identifier: Apache-2.0
"""The control loop of the thesis: a client asks a Pi for a temperature through a broker, and the Pi asks a board."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from clients.schedule import Job
from experiments import families
from experiments.differences import Fact
from experiments.families import Axis, Columns, Cycle, Family, Outcome
from experiments.families.control import cells, outcome, path, scenarios, studies
from experiments.families.control.conditions import ControlCell
from experiments.families.control.containers import ControlInContainers
from experiments.families.control.differences import differences
from experiments.families.control.metrics import metrics
from experiments.families.control.processes import ControlAsProcesses
from experiments.families.control.roles import DRIVER, ROLES
from experiments.families.control.scenarios import Scenario
from experiments.families.control.scenarios.thesis import THESIS
from experiments.families.control.swaps import SWAPPABLE, swapped
from experiments.placements import Stand
from experiments.variables import Settings
from schema import bundle as schema


class ControlLoop(Family[ControlCell]):
    """T and R are measured, each by one clock, and O is what is left: T − R."""

    name = "control"
    axes = (Axis("interval_ms", "a cycle every {} ms", "{} ms"), Axis("qos", "QoS {}", "QoS {}"))
    metrics = metrics()
    roles = ROLES
    driver = DRIVER.name
    columns: ClassVar[Columns] = {"board": str}
    tables: ClassVar[Mapping[str, Columns]] = {"path": path.COLUMNS}
    variables = frozenset({
        "INTERVALS", "QOS", "QOS_ANSWER", "DEVICE", "TCP", "SECURITY", "BROKER", "PRIORITY", "CONTENTION", "FLOOD",
        "FAULT", "FAULT_AT_MS", "SESSION", "FIDELITY", "BROKER_IMAGE",
    })  # fmt: skip
    scenarios = scenarios.REGISTRY
    studies = studies.REGISTRY
    series = tuple(THESIS)
    stands: ClassVar[Mapping[str, Callable[[Mapping[str, str]], Stand]]] = {
        "docker": ControlInContainers,
        "host": ControlAsProcesses,
    }

    def cells(self, scenario: str, settings: Settings, placement: str, arm: str) -> list[ControlCell]:
        """Cross a scenario's brokers, intervals and QoS."""
        return cells.planned(scenario, settings, placement, arm)

    def in_series(self, scenario: str, settings: Settings) -> Settings:
        """PRIORITY=published means nothing where the thesis sets none: over all nine that is no mistake."""
        nothing = settings.priority == "published" and not THESIS[scenario].priority
        return dataclasses.replace(settings, priority=None) if nothing else settings

    def describe(self, scenario: Scenario) -> dict[str, str]:
        """Return what differs from one scenario of the thesis to the next."""
        return {
            "what": scenario.title, "board": scenario.device, "contention": scenario.contention or "–",
            "priority": ", ".join(f"{service} {what}" for service, what in scenario.priority.items()) or "–",
            "intervals ms": " ".join(map(str, scenario.intervals_ms)), "QoS": " ".join(map(str, scenario.qos)),
        }  # fmt: skip

    def compares(self, cells: Sequence[ControlCell]) -> bool:
        """Of several brokers those are compared that can do it."""
        return len({cell.conditions.broker for cell in cells}) > 1

    def recorded(self, cell: schema.Cell, facts: schema.Bundle, named: Mapping[str, str]) -> ControlCell:
        """Rebuild a cell of a bundle."""
        return cells.recorded(cell, facts, named)

    def swappable(self) -> Mapping[str, Callable[[schema.Cell], object]]:
        """Broker, TCP option, knobs."""
        return SWAPPABLE

    def swapped(self, cell: ControlCell, swaps: Mapping[str, str]) -> ControlCell:
        """Put these values in the place of a cell's."""
        return swapped(cell, swaps)

    def differences(self, recorded: schema.Bundle, cells: Sequence[ControlCell]) -> Iterator[Fact]:
        """The board, and the broker of plain processes."""
        return differences(recorded, cells)

    def usual_headline(self, *, contended: bool, broken: bool) -> tuple[str, ...]:
        """Where something breaks, recovery comes first."""
        return (*((scenarios.RECOVERY,) if broken else ()), *(scenarios.CONTENDED if contended else scenarios.QUIET))

    def job(self, cell: ControlCell, run: str, repetition: int, warmup: int) -> Job:
        """What the control loop is asked to do."""
        return Job(
            run=run, repetition=repetition, interval_ms=cell.interval_ms, messages=cell.messages, warmup=warmup,
            qos=cell.qos, qos_answer=cell.qos_answer, timeout_ms=cell.timeout_ms,
        )  # fmt: skip

    def cycle(self, row: list[Any]) -> Cycle:
        """R comes with the answer."""
        return outcome.cycle(row)

    def outcome(self, cell: ControlCell, done: dict[str, Any], stand: Stand, began_ns: int) -> Outcome:
        """QoS, protection, board, connections and drops."""
        return outcome.outcome(cell, done, stand, began_ns)

    def captured(self, rows: list[dict[str, Any]], messages: list[list[Any]], repetition: int) -> dict[str, Any]:
        """O split along the path."""
        seen = path.passed(messages, repetition)
        return {"path": [parts for row in rows if (parts := path.split(row, seen))]}


families.REGISTRY.add(ControlLoop.name, ControlLoop())

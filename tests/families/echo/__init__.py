# SPDX-License-Identifier: Apache-2.0
"""An echo over plain TCP: what a round trip costs by the size of its message. A family as small as one can be."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from experiments import contentions, families, knobs, proof, roles, variables
from experiments.cells import Cell, Conditions
from experiments.errors import StandError
from experiments.families import Axis, Cycle, Family, Metric, Outcome, Scenario, Study
from experiments.placements import Stand
from experiments.placements.docker import DockerStand
from experiments.placements.host import HostStand
from experiments.registry import Registry
from experiments.roles import Role
from experiments.variables import Settings, Variable, wholes
from schema import bundle as schema

ROLES = (Role("server", side="pi", detailed=True), Role("asker", takes_jobs=True, detailed=True))
PROGRAM = Path(__file__).with_name("driver.py")
PORT = 7000

variables.add("SIZES", Variable(wholes(8, 60_000), "bytes a message, e.g. 16,4096"))


class EchoConditions(Conditions):
    """Nothing of its own."""

    def measured(self) -> list[str]:
        """Both ends."""
        return [role.name for role in ROLES]


@dataclass(frozen=True, kw_only=True)
class EchoCell(Cell):
    """Interval × size."""

    size_bytes: int

    def describe(self) -> str:
        """Name the cell in progress and errors."""
        return f"{self.interval_ms} ms, {self.size_bytes} bytes"

    def record(self, index: int) -> dict[str, Any]:
        """Return the entry of `plan.cells` in bundle.json."""
        return super().record(index) | {"size_bytes": self.size_bytes}


@dataclass(frozen=True)
class Job:
    """What the asker is to do in one repetition."""

    interval_ms: int
    size_bytes: int
    messages: int
    warmup: int
    timeout_ms: int

    def scheduled_s(self) -> float:
        """How long the schedule lasts."""
        return (self.messages + self.warmup) * self.interval_ms / 1000


class EchoAsProcesses(HostStand):
    """Two processes on loopback."""

    roles = ROLES

    def __init__(self, _pinned: Mapping[str, str]) -> None:
        super().__init__()

    def begin(self, conditions: Conditions) -> None:
        """Start the server, and who asks it once it serves."""
        del conditions
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = str(probe.getsockname()[1])
        python = ["python3", str(PROGRAM)]
        self._start("server", [*python, "serve", port])
        self._open("asker", [*python, "ask", "127.0.0.1", port])

    def refresh(self) -> None:
        """Each repetition has a connection of its own, and nothing else is kept."""


class EchoInContainers(DockerStand):
    """Two containers of the client's image, in place of the Compose file's services."""

    roles = ROLES

    def wishes(self, conditions: Conditions) -> list[tuple[str, dict[str, Any]]]:
        """Return what both services run: the Compose file has none of them."""
        del conditions
        program = ["python3", "-c", PROGRAM.read_text()]
        image = {"image": "testbed/client", "entrypoint": program}
        asker = image | {"command": ["ask", "server", str(PORT)], "stdin_open": True, "logging": {"driver": "none"}}
        return [("server", image | {"command": ["serve", str(PORT)]}), ("asker", asker)]

    def refresh(self) -> None:
        """Each repetition has a connection of its own, and nothing else is kept."""

    def floor_us(self, interval_ms: int = 5) -> list[int]:  # noqa: ARG002
        """It is what is measured."""
        raise StandError("an echo is its own floor")


SCENARIOS: Registry[Scenario] = Registry(__name__)
SCENARIOS.add("echo", Scenario("echo over TCP"))
SCENARIOS.add("echo-cpu", Scenario("echo over TCP, CPU stress"))
STUDIES: Registry[Study] = Registry(__name__)
STUDIES.add(
    "echo-sizes",
    Study(
        "What does the size of a message cost?", ("echo",), {"small": {"SIZES": "16"}, "large": {"SIZES": "16000"}},
        headline=("RTT.p50",), common={"INTERVALS": "10"},
    ),
)  # fmt: skip


class Echo(Family[EchoCell]):
    """One metric, and one axis beside the interval."""

    name = "echo"
    axes = (Axis("interval_ms", "a message every {} ms", "{} ms"), Axis("size_bytes", "{} bytes", "{} B"))
    metrics = (Metric("RTT", "rtt_us", "from a message to its echo"),)
    roles = ROLES
    driver = "asker"
    variables = frozenset({"SIZES", "PRIORITY", "CONTENTION"})
    scenarios = SCENARIOS
    studies = STUDIES
    stands: ClassVar[Mapping[str, Callable[[Mapping[str, str]], Stand]]] = {
        "host": EchoAsProcesses,
        "docker": EchoInContainers,
    }

    def cells(self, scenario: str, settings: Settings, placement: str, arm: str) -> list[EchoCell]:
        """Cross intervals and sizes."""
        usual = "cpu" if scenario == "echo-cpu" else "none"
        able = roles.settable([*ROLES, *contentions.roles()])
        asked = {} if settings.priority in (None, "none") else knobs.parse(str(settings.priority), able)
        conditions = EchoConditions(
            contention=contentions.parse(settings.contention or usual), knobs=knobs.frozen(asked)
        )
        conditions.require_services()
        sizes = settings.own.get("SIZES", (64,))
        assert isinstance(sizes, tuple)
        return [
            EchoCell(
                scenario=scenario, interval_ms=interval_ms, size_bytes=size, conditions=conditions, arm=arm,
                messages=settings.messages, timeout_ms=settings.timeout_ms, placement=placement,
            )
            for interval_ms in settings.intervals or (20,)
            for size in sizes
        ]  # fmt: skip

    def recorded(self, cell: schema.Cell, facts: schema.Bundle, named: Mapping[str, str]) -> EchoCell:
        """Rebuild a cell of a bundle."""
        del named
        swaps = {"INTERVALS": cell.on("interval_ms"), "SIZES": cell.on("size_bytes"),
                 "MESSAGES": cell.messages or facts.plan.messages, "TIMEOUT_MS": cell.timeout_ms,
                 "CONTENTION": cell.contention or "none"}  # fmt: skip
        asked = [f"{service}={'+'.join(fields.values())}" for service, fields in cell.knobs.items()]
        settings = Settings.parse(
            {name: str(value) for name, value in swaps.items()} | {"PRIORITY": ",".join(asked) or "none"}
        )
        (again,) = self.cells(cell.scenario, settings, cell.placement or facts.placement, cell.arm)
        return again

    def usual_headline(self, *, contended: bool, broken: bool) -> tuple[str, ...]:
        """The tail beside a neighbour."""
        del broken
        return ("RTT.p99",) if contended else ("RTT.p50",)

    def job(self, cell: EchoCell, run: str, repetition: int, warmup: int) -> Job:
        """What the asker is to do."""
        del run, repetition
        return Job(cell.interval_ms, cell.size_bytes, cell.messages, warmup, cell.timeout_ms)

    def cycle(self, row: list[Any]) -> Cycle:
        """Four times, and nothing else."""
        sequence, intended_ns, sent_ns, received_ns = row
        return Cycle(sequence, intended_ns, sent_ns, received_ns)

    def outcome(self, cell: EchoCell, done: dict[str, Any], stand: Stand, began_ns: int) -> Outcome:
        """A proof of its own, and what the asker cost."""
        del stand, began_ns
        finished = proof.entry("asker", "finished", "all cycles", "all cycles", holds=done["elapsed_s"] > 0)
        cpu_percent = round(100 * done["cpu_s"] / done["elapsed_s"], 2)
        return Outcome([finished], {"asker": {"cpu_percent": cpu_percent, "size_bytes": cell.size_bytes}})


families.REGISTRY.add(Echo.name, Echo())

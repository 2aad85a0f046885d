# SPDX-License-Identifier: Apache-2.0
"""Conditions and cells of the control loop: its broker, board, connections and sessions, and the QoS of both hops."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from experiments import brokers, knobs
from experiments.boards import Board
from experiments.cells import Cell, Conditions
from experiments.families.control.roles import BOARD, BROKER, DRIVER, PI, ROLES
from experiments.faults import Place
from experiments.roles import connected


@dataclass(frozen=True)
class ControlConditions(Conditions):
    """What the stand is brought to before a repetition of a cell."""

    board: Board
    tcp: str = "nodelay"
    broker: str = "mosquitto"
    session: str = "clean"
    security: str = "none"

    def __post_init__(self) -> None:
        """Add TCP option and security to the knobs, for they are proved like them."""
        merged = dict(self.knobs)
        for service in connected(ROLES):
            words = [self.tcp, *([self.security] if self.security != "none" else [])]
            added = [knobs.one(word) for word in words]
            fields = {knob.field for knob in added}
            others = (knob for knob in merged.get(service, ()) if knob.field not in fields)
            merged[service] = (*others, *added)
        object.__setattr__(self, "knobs", knobs.frozen(merged))

    def setup(self) -> brokers.Setup:
        """What of this the broker's configuration depends on."""
        stores = self.session == "persistent" or (self.fault is not None and self.fault.needs_store)
        return brokers.Setup(self.tcp, self.security, stores)

    def measured(self) -> list[str]:
        """The board runs only where it is a program."""
        return [BROKER.name, PI.name, DRIVER.name, *([BOARD.name] if self.board.serves else [])]

    def place(self, *, containers: bool) -> Place:
        """Some faults need a board that is a program."""
        return Place(containers, self.board.serves)


@dataclass(frozen=True, kw_only=True)
class ControlCell(Cell):
    """Scenario × interval × QoS."""

    conditions: ControlConditions
    qos: int
    qos_answer: int

    def describe(self) -> str:
        """Name the cell in progress and errors."""
        return f"{self.interval_ms} ms, QoS {self.qos}" + (f", {self.arm}" if self.arm else "")

    def check(self) -> None:
        """The broker must deliver at the QoS of both hops."""
        for qos in (self.qos, self.qos_answer):
            brokers.parse(self.conditions.broker).check_qos(qos)

    def record(self, index: int) -> dict[str, Any]:
        """Return the entry of `plan.cells` in bundle.json."""
        conditions = self.conditions
        return super().record(index) | {
            "qos": self.qos, "qos_answer": self.qos_answer, "broker": conditions.broker,
            "board": conditions.board.kind, "device": str(conditions.board), "session": conditions.session,
        }  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""From a scenario and its swaps to cells, and the order in which their repetitions run."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from clients.schedule import Job
from experiments import boards
from experiments.boards import Board
from experiments.errors import BadInputError, TestbedError
from experiments.scenarios import SCENARIOS, Scenario
from experiments.variables import Settings


@dataclass(frozen=True)
class Conditions:
    """What the stand is brought to before a repetition of a cell."""

    board: Board
    tcp: str

    def knobs(self) -> dict[str, dict[str, str]]:
        """What is set, by service, as the bundle records it."""
        return {service: {"tcp": self.tcp} for service in ("broker", "control-loop", "pi")}


@dataclass(frozen=True)
class Cell:
    """Scenario × interval × QoS: what one row group of the table is about."""

    scenario: str
    interval_ms: int
    qos: int
    qos_answer: int
    conditions: Conditions
    contention: str | None = None
    arm: str = ""

    def describe(self) -> str:
        """Name the cell in progress and errors."""
        return f"{self.interval_ms} ms, QoS {self.qos}" + (f", {self.arm}" if self.arm else "")

    def record(self, index: int) -> dict[str, Any]:
        """Give the entry of `plan.cells` in bundle.json."""
        return {
            "cell": index, "scenario": self.scenario, "arm": self.arm, "interval_ms": self.interval_ms,
            "qos": self.qos, "qos_answer": self.qos_answer, "board": self.conditions.board.kind,
            "device": str(self.conditions.board), "contention": self.contention, "knobs": self.conditions.knobs(),
        }  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """Everything decided before the run starts."""

    name: str
    title: str
    cells: list[Cell]
    settings: Settings
    run: str

    def order(self) -> list[tuple[int, int]]:
        """(cell, repetition) pairs: every cell once per round, in seeded random order.

        Rounds keep the cells interleaved, so that a host that drifts drifts under all of them alike.
        """
        shuffle = random.Random(self.settings.seed)  # noqa: S311 - an order to repeat, not a secret
        order = []
        for repetition in range(1, self.settings.repetitions + 1):
            cells = list(range(len(self.cells)))
            shuffle.shuffle(cells)
            order += [(cell, repetition) for cell in cells]
        return order

    def scheduled_s(self, cell: Cell) -> float:
        """How long one repetition's schedule lasts, warm-up included."""
        return (self.settings.messages + self.settings.warmup) * cell.interval_ms / 1000

    def job(self, cell: Cell, repetition: int) -> Job:
        """What the control loop is asked to do in one repetition of a cell."""
        settings = self.settings
        return Job(
            run=self.run, repetition=repetition, interval_ms=cell.interval_ms, messages=settings.messages,
            warmup=settings.warmup, qos=cell.qos, qos_answer=cell.qos_answer, timeout_ms=settings.timeout_ms,
        )  # fmt: skip

    def record(self) -> dict[str, Any]:
        """Give `plan` in bundle.json."""
        settings = self.settings
        return {
            "seed": settings.seed, "messages": settings.messages, "repetitions": settings.repetitions,
            "warmup": settings.warmup, "timeout_ms": settings.timeout_ms, "run": self.run,
            "cells": [cell.record(index) for index, cell in enumerate(self.cells)], "order": self.order(),
        }  # fmt: skip


def of_scenario(number: str, settings: Settings, run: str, default_device: str | None = None) -> Plan:
    """Plan a scenario; raise BadInputError. `default_device` replaces the scenario's board where no swap does."""
    if number not in SCENARIOS:
        raise BadInputError("scenario", number, f"allowed are {', '.join(SCENARIOS)}")
    scenario = SCENARIOS[number]
    _check_possible(number, scenario, settings)
    device = settings.device or (default_device if default_device and scenario.device != "none" else scenario.device)
    conditions = Conditions(boards.parse(device), settings.tcp)
    cells = [
        Cell(
            number,
            interval_ms,
            qos,
            qos if settings.qos_answer is None else settings.qos_answer,
            conditions,
            scenario.contention,
        )
        for interval_ms in settings.intervals or scenario.intervals_ms
        for qos in settings.qos or scenario.qos
    ]
    return Plan(f"scenario-{number}", scenario.title, cells, settings, run)


def _check_possible(number: str, scenario: Scenario, settings: Settings) -> None:
    lacking = []
    if scenario.contention:
        lacking.append(f"its contention, {scenario.contention}")
    if scenario.priority or settings.priority:
        lacking.append("real-time priority with its proof")
    if lacking:
        raise TestbedError(f"scenario {number} ({scenario.title}) cannot run yet: it lacks {' and '.join(lacking)}")

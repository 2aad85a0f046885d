# SPDX-License-Identifier: Apache-2.0
"""From a scenario and its swaps to cells, and the order in which their repetitions run."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from clients.schedule import Job
from experiments import boards, brokers, contentions, faults, knobs
from experiments.boards import Board
from experiments.contentions import Contention
from experiments.contentions.mqtt_stresser import MqttStresser
from experiments.cpus import cpu_sets
from experiments.errors import BadInputError
from experiments.faults import Fault
from experiments.knobs import Knobs, security, tcp
from experiments.scenarios import SCENARIOS, Scenario, usual_headline
from experiments.studies import STUDIES
from experiments.variables import IMAGES, Settings
from schema import assertions
from schema.looks import SPENDING, Look, looks

OF_THE_WHOLE_RUN = frozenset({"REPETITIONS", "PRECISION", "ASSERT", "WARMUP", "DEADLINE_MS", "SEED", "YES", *IMAGES})
"""Variables that no arm of a study can have to itself."""


@dataclass(frozen=True)
class Conditions:
    """What the stand is brought to before a repetition of a cell."""

    board: Board
    tcp: str = "nodelay"
    contention: Contention | None = None
    knobs: Knobs = ()
    broker: str = "mosquitto"
    fault: Fault | None = None
    session: str = "clean"
    security: str = "none"

    def __post_init__(self) -> None:
        """Add TCP option and security to the knobs, for they are proved like them."""
        merged = dict(self.knobs)
        of_connections = {service: [knobs.one(self.tcp)] for service in tcp.ON}
        if self.security != "none":
            for service in security.ON:
                of_connections[service].append(knobs.one(self.security))
        for service, added in of_connections.items():
            fields = {knob.field for knob in added}
            others = (knob for knob in merged.get(service, ()) if knob.field not in fields)
            merged[service] = (*others, *added)
        object.__setattr__(self, "knobs", knobs.frozen(merged))

    def undisturbed(self) -> Conditions:
        """The same with nothing that disturbs or breaks."""
        return replace(self, contention=None, fault=None)

    def standing(self) -> Conditions:
        """The same as the stand is brought up for: what breaks needs nothing beforehand, unless it has a helper."""
        needs_more = self.fault is not None and (self.fault.helper or self.fault.needs_store)
        return self if needs_more else replace(self, fault=None)

    def setup(self) -> brokers.Setup:
        """What of this the broker's configuration depends on."""
        stores = self.session == "persistent" or (self.fault is not None and self.fault.needs_store)
        return brokers.Setup(self.tcp, self.security, stores)

    def services(self) -> list[str]:
        """The services that must run."""
        board = ["board"] if self.board.serves else []
        return ["broker", "pi", "control-loop", *board, *([self.contention.service] if self.contention else [])]

    def record(self) -> dict[str, dict[str, str]]:
        """Return `knobs` in bundle.json: by service, what was asked of which field."""
        return {service: {knob.field: str(knob) for knob in asked} for service, asked in self.knobs}


@dataclass(frozen=True)
class Cell:
    """Scenario × interval × QoS: what one row group of the table is about."""

    scenario: str
    interval_ms: int
    qos: int
    qos_answer: int
    conditions: Conditions
    messages: int
    timeout_ms: int
    arm: str = ""
    placement: str = "docker"
    fault_at_ms: int | None = None
    """When its fault comes, after the first counted cycle; None without one."""

    def describe(self) -> str:
        """Name the cell in progress and errors."""
        return f"{self.interval_ms} ms, QoS {self.qos}" + (f", {self.arm}" if self.arm else "")

    def record(self, index: int) -> dict[str, Any]:
        """Return the entry of `plan.cells` in bundle.json."""
        return {
            "cell": index, "scenario": self.scenario, "arm": self.arm, "placement": self.placement,
            "interval_ms": self.interval_ms, "qos": self.qos, "qos_answer": self.qos_answer,
            "messages": self.messages, "timeout_ms": self.timeout_ms,
            "broker": self.conditions.broker, "board": self.conditions.board.kind,
            "device": str(self.conditions.board), "contention": str(self.conditions.contention or "") or None,
            "knobs": self.conditions.record(),
            "session": self.conditions.session,
            "fault": str(self.conditions.fault or "") or None, "fault_at_ms": self.fault_at_ms,
        }  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """Everything decided before the run starts."""

    name: str
    title: str
    cells: list[Cell]
    settings: Settings
    run: str
    left_out: tuple[tuple[str, str], ...] = ()
    """(arm, reason) of the arms, or of their cells, that this host or their broker cannot do."""
    captured: bool = False
    """Split O by a capture; the latencies of such a run are not for comparison."""
    question: str | None = None
    """What the run is to answer; none where its title says all."""
    note: str | None = None
    """What a reader of the answer must know beside it."""
    headline: tuple[str, ...] | None = None
    """What answers it, in the order tested; none: what is usual for the conditions."""
    margin_percent: float = 5.0
    """Differences within it do not matter."""
    looked_at: tuple[str, ...] = ()
    """With PRECISION, what `analysis` is told at each look beside the bundle: a gate's baseline."""

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

    def looks(self) -> tuple[Look, ...]:
        """When the run looks whether it has its answer; never, unless there is a PRECISION to reach."""
        return looks(self.settings.repetitions) if self.settings.precision else ()

    def _usual_headline(self) -> tuple[str, ...]:
        conditions = [cell.conditions for cell in self.cells]
        return usual_headline(contended=any(c.contention for c in conditions), broken=any(c.fault for c in conditions))

    def scheduled_s(self, cell: Cell) -> float:
        """How long one repetition's schedule lasts, warm-up included."""
        return (cell.messages + self.settings.warmup) * cell.interval_ms / 1000

    def job(self, cell: Cell, repetition: int) -> Job:
        """What the control loop is asked to do in one repetition of a cell."""
        return Job(
            run=self.run, repetition=repetition, interval_ms=cell.interval_ms, messages=cell.messages,
            warmup=self.settings.warmup, qos=cell.qos, qos_answer=cell.qos_answer, timeout_ms=cell.timeout_ms,
        )  # fmt: skip

    def without(self, impossible: Mapping[Cell, str]) -> Plan:
        """The same without these cells, by the reason that each is left out for."""
        cells = [cell for cell in self.cells if cell not in impossible]
        left_out = dict.fromkeys((cell.arm, reason) for cell, reason in impossible.items())
        return replace(self, cells=cells, left_out=tuple(left_out))

    def record(self) -> dict[str, Any]:
        """Return `plan` in bundle.json."""
        settings = self.settings
        return {
            "seed": settings.seed, "messages": settings.messages, "repetitions": settings.repetitions,
            "warmup": settings.warmup, "timeout_ms": settings.timeout_ms, "deadline_ms": settings.deadline_ms,
            "run": self.run, "captured": self.captured,
            "left_out": [{"arm": arm, "reason": reason} for arm, reason in self.left_out],
            "question": self.question or f"How late are answers: {self.title}?",
            **({"note": self.note} if self.note else {}),
            "headline": list(self.headline or self._usual_headline()), "margin_percent": self.margin_percent,
            "cells": [cell.record(index) for index, cell in enumerate(self.cells)], "order": self.order(),
            "sequential": self._sequential(), "assertions": list(settings.assert_),
        }  # fmt: skip

    def require_enough(self) -> None:
        """Raise BadInputError for an assertion that this run is too short to judge."""
        settings = self.settings
        for one in assertions.parse(",".join(settings.assert_)) if settings.assert_ else ():
            arms = dict.fromkeys(cell.arm for cell in self.cells)
            if one.arm is not None and one.arm not in arms:
                raise BadInputError(
                    "ASSERT", one.text, f"no such arm; arms are {', '.join(filter(None, arms)) or 'none'}"
                )
            chosen = [cell for cell in self.cells if one.arm in {None, cell.arm}]
            fewest = min(cell.messages for cell in chosen) * settings.repetitions
            if one.cycles > fewest:
                remedy = f"needs {one.cycles} cycles, the run has {fewest}; raise MESSAGES or REPETITIONS"
                raise BadInputError("ASSERT", one.text, remedy)
            if settings.repetitions < one.repetitions:
                raise BadInputError("ASSERT", one.text, f"an interval needs REPETITIONS={one.repetitions} at least")
            if one.metric == assertions.RECOVERY and not any(cell.conditions.fault for cell in self.cells):
                raise BadInputError("ASSERT", one.text, "nothing breaks, so nothing recovers; say FAULT=… as well")

    def _sequential(self) -> dict[str, Any] | None:
        planned = [asdict(look) for look in self.looks()]
        rule = {"precision_percent": self.settings.precision, "spending": SPENDING, "looks": planned}
        return rule if planned else None


def of_scenario(number: str, settings: Settings, run: str, placement: str = "docker") -> Plan:
    """Plan a scenario; raise BadInputError."""
    if number not in SCENARIOS:
        raise BadInputError("scenario", number, f"allowed are {', '.join(SCENARIOS)}")
    cells = _cells(number, settings, placement)
    scenario = SCENARIOS[number]
    return Plan(f"scenario-{number}", scenario.title, cells, settings, run, headline=scenario.headline)


def of_study(name: str, given: Mapping[str, str], run: str, placement: str = "docker") -> Plan:
    """Plan a study's arms side by side; `given` replaces what the arms leave open. Raises BadInputError."""
    if name not in STUDIES:
        raise BadInputError("study", name, f"allowed are {', '.join(STUDIES)}")
    study = STUDIES[name]
    settings = Settings.parse(study.common | dict(given))
    cells: list[Cell] = []
    for arm, swaps in study.arms.items():
        for variable in sorted(set(swaps) & OF_THE_WHOLE_RUN):
            raise BadInputError(
                variable, swaps[variable], f"arm {arm} of study {name} swaps what holds for a whole run"
            )
        swept = {variable: value.format(pi_cpus=cpu_sets()[1]) for variable, value in swaps.items()}
        taken = set(swept) & set(given)
        if taken:
            variable = min(taken)
            raise BadInputError(variable, given[variable], f"it is what study {name} varies; leave it out")
        arm_settings = Settings.parse(study.common | dict(given) | swept | {"SEED": str(settings.seed)})
        for scenario in study.scenarios:
            cells += _cells(scenario, arm_settings, arm_settings.placement or placement, arm)
    return Plan(
        f"study-{name}",
        study.question,
        cells,
        settings,
        run,
        question=study.question,
        headline=study.headline,
        note=study.note,
    )


def _cells(number: str, settings: Settings, placement: str, arm: str = "") -> list[Cell]:
    """Cross a scenario's brokers, intervals and QoS, with the swaps in place; raise BadInputError."""
    kinds = brokers.several(settings.broker) if settings.broker else [brokers.usual(placement)]
    swept = len(kinds) > 1
    return [
        cell
        for kind in kinds
        for cell in _cells_of_broker(
            number, settings, placement, kind, ", ".join(filter(None, (arm, kind if swept else "")))
        )
    ]


def _cells_of_broker(number: str, settings: Settings, placement: str, broker: str, arm: str) -> list[Cell]:
    scenario = SCENARIOS[number]
    published = settings.fidelity == "published"
    conditions = Conditions(
        _board(scenario, settings, placement),
        settings.tcp or ("nagle" if published else "nodelay"),
        _contention(scenario, settings),
        _knobs(scenario, settings),
        broker,
        faults.parse(settings.fault or "none"),
        settings.session or "clean",
        settings.security or "none",
    )
    require_services(conditions)
    if settings.fault_at_ms is not None and settings.fault is None:
        raise BadInputError("FAULT_AT_MS", str(settings.fault_at_ms), "there is no fault; say FAULT=… as well")
    qos_answer = 0 if published and settings.qos_answer is None else settings.qos_answer
    return [
        Cell(
            number, interval_ms, qos, qos if qos_answer is None else qos_answer, conditions,
            settings.messages, settings.timeout_ms, arm, placement,
            fault_at_ms(conditions.fault, interval_ms, settings.messages, settings.fault_at_ms),
        )
        for interval_ms in settings.intervals or scenario.intervals_ms
        for qos in settings.qos or scenario.qos
    ]  # fmt: skip


def require_services(conditions: Conditions) -> None:
    """A knob on what does not run would be a label without a fact; raise BadInputError."""
    services = conditions.services()
    for service, asked in conditions.knobs:
        if service not in services:
            raise BadInputError("PRIORITY", f"{service}={knobs.record(asked)}", f"here run only {', '.join(services)}")


def _board(scenario: Scenario, settings: Settings, placement: str) -> Board:
    """Return the board asked for; a bare host, which may have no simulator, gets the timing model instead."""
    modelled = placement == "host" and scenario.device == "simavr"
    return boards.parse(settings.device or ("model" if modelled else scenario.device))


def fault_at_ms(fault: Fault | None, interval_ms: int, messages: int, asked_ms: int | None) -> int | None:
    """Return when the fault of a cell comes; raise BadInputError where the repetition is too short for it."""
    if fault is None:
        return None
    at_ms = faults.at_ms(interval_ms, messages, asked_ms)
    fault.check_length(at_ms, interval_ms, messages)
    return at_ms


def _contention(scenario: Scenario, settings: Settings) -> Contention | None:
    name = settings.contention or scenario.contention or "none"
    level = settings.flood or ""
    if level and name != "flood":
        raise BadInputError("FLOOD", level, f"the contention here is {name}; say CONTENTION=flood as well")
    if level == MqttStresser.kind:
        return contentions.parse(level)
    return contentions.parse(f"flood:{level or 'published'}" if name == "flood" else name)


def _knobs(scenario: Scenario, settings: Settings) -> Knobs:
    priority = settings.priority or settings.fidelity  # the thesis as it was: with flags where it had them
    if priority == "none":
        return ()
    asked = {service: (knobs.one(words),) for service, words in scenario.priority.items()}
    if priority == "published":
        if settings.priority and not asked:
            raise BadInputError(
                "PRIORITY", priority, f"the thesis sets none in {scenario.title!r}; leave it out, or say broker=flags"
            )
        return knobs.frozen({service: (knobs.one("flags"),) for service in asked})
    return knobs.frozen(asked | (knobs.parse(priority) if priority else {}))

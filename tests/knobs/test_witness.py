# SPDX-License-Identifier: Apache-2.0
"""Proofs are taken at the start and again at the end: what changes on the way is seen."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from kernel import CONFIGURATION, untouched

from experiments import knobs, proof
from experiments.boards.none import NoBoard
from experiments.families.control.conditions import ControlConditions
from experiments.families.control.roles import ROLES
from experiments.observer.state import State
from experiments.placements import Channel, Configuration, Stand
from experiments.witness import Witness


class ScriptedObserver(Channel):
    """Answers as the observer would; every proof shows the next of the scripted states."""

    def __init__(self, states: list[dict[str, State]], told: dict[str, Any]) -> None:
        super().__init__("observer")
        self._states, self._told = states, told

    def ask(self, **request: Any) -> dict[str, Any]:
        if request["do"] == "prove":
            return {"services": self._states.pop(0)}
        return self._told if request["do"] == "stop" else {}


class ScriptedStand(Stand):
    name = "scripted"
    containers = True
    roles = ROLES

    def __init__(self, *states: dict[str, State], told: dict[str, Any] | None = None) -> None:
        super().__init__()
        self._channels["observer"] = ScriptedObserver(list(states), told or {"rows": [], "cpu_s": {}})

    def pids(self) -> dict[str, int]:
        return {"broker": 7}

    def ailing(self) -> dict[str, str]:
        return {}

    def configurations(self) -> dict[str, Configuration]:
        return {"broker": Configuration("/broker.conf", CONFIGURATION)}


Watch = Callable[..., list[str]]


@pytest.fixture
def watch() -> Watch:
    """What is wrong after a repetition in which the broker was so at the start and so at the end."""

    def run(*asked: str, start: State | None = None, end: State | None = None) -> list[str]:
        state = untouched(cpus=ScriptedStand().service("broker").cpus)
        states = [{"broker": copy.deepcopy(state) | (changes or {})} for changes in (start, end)]
        conditions = ControlConditions(NoBoard(), knobs=knobs.frozen({"broker": tuple(map(knobs.one, asked))}))
        witness = Witness(ScriptedStand(*states), conditions)
        witness.begin()
        witness.end()
        assert len({(entry["service"], entry["knob"]) for entry in witness.proofs}) == len(witness.proofs)
        return proof.problems(witness.proofs)

    return run


def test_what_holds_from_start_to_end_is_no_problem(watch: Watch) -> None:
    assert watch() == []
    assert watch("quota:0.5", start={"quota": 0.5}, end={"quota": 0.5}) == []


def test_what_was_lost_on_the_way_is_seen_and_so_is_what_came_too_late(watch: Watch) -> None:
    for start, end in ((0.5, None), (None, 0.5), (None, None)):
        (line,) = watch("quota:0.5", start={"quota": start}, end={"quota": end})
        assert line.startswith("broker: quota should be 0.5 (quota:0.5) but reads None")


def test_connections_are_looked_at_while_there_are_any(watch: Watch) -> None:
    assert watch(end={"connections": []}) == [], "the control loop has closed its own by then"
    (line,) = watch(start={"connections": [{"nodelay": False}]})
    assert line.startswith("broker: tcp should be nodelay")


def test_a_service_that_ended_on_the_way_is_said_so(watch: Watch) -> None:
    lines = watch(end={"error": "process 7 is gone"})
    assert any(line.startswith("broker: process should be running") for line in lines)


def test_a_real_time_budget_is_shared_by_those_who_ask_for_one() -> None:
    stand = ScriptedStand()

    def budgets_us(**asked: str) -> list[int]:
        by_service = {service: tuple(map(knobs.one, words.split("+"))) for service, words in asked.items()}
        conditions = ControlConditions(NoBoard(), knobs=knobs.frozen(by_service))
        return [stand.rt_budget_us(conditions, service) for service in ("broker", "pi", "stressor")]

    assert budgets_us() == [0, 0, 0]
    assert budgets_us(broker="fifo:90") == [800_000, 0, 0]
    assert budgets_us(broker="fifo:90+weight:2", pi="rr:1", stressor="nice:5") == [400_000, 400_000, 0]
    stand.containers = False  # type: ignore[misc]
    assert budgets_us(broker="fifo:90") == [0, 0, 0], "a plain process has no group of its own"


def test_noise_is_what_neither_the_stand_nor_the_observer_used(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([100.0, 110.0, 110.0])
    monkeypatch.setattr("experiments.witness.time.monotonic", lambda: next(clock))
    state = {"broker": untouched(cpus=ScriptedStand().service("broker").cpus)}
    cpus = len({*ScriptedStand().service("broker").cpus, *ScriptedStand().service("pi").cpus})
    host = [{"service": "host", "steal_percent": 4.0 * cpus}, {"service": "host", "steal_percent": 2.0 * cpus}]
    told = {"rows": host, "cpu_s": {"host": 6.0 * cpus, "broker": 3.0 * cpus}, "observer_cpu_s": 1.0 * cpus}
    witness = Witness(ScriptedStand(state, state, told=told), ControlConditions(NoBoard()))
    witness.begin()
    witness.end()
    assert witness.noise == {
        "steal_percent": 3.0, "foreign_cpu_percent": pytest.approx(20.0), "observer_gap_ms": None,
    }  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""Scenarios, studies and swaps as plans: which conditions each cell gets, decided before anything starts."""

from __future__ import annotations

import json

import pytest

from experiments.cells import Cell
from experiments.cpus import cpu_sets
from experiments.errors import BadInputError
from experiments.families.control import scenarios, studies
from experiments.plan import Plan, of_scenario, of_study
from experiments.variables import Settings

RUN = "0123abcd"
STUDIES = studies.REGISTRY.all()
FOUR = (100, 50, 20, 10)
# The thesis' table: board, contention, who comes first, intervals, QoS.
THESIS = {
    "0": ("none", None, (), FOUR, (0,)), "1": ("simavr", None, (), FOUR, (0,)), "2": ("simavr", "cpu", (), FOUR, (0,)),
    "3": ("none", "cpu", (), FOUR, (0,)), "4": ("simavr", "cpu", ("broker",), FOUR, (0,)),
    "5": ("simavr", "cpu", ("broker", "control-loop"), FOUR, (0,)), "6": ("none", "cpu", ("broker",), FOUR, (0,)),
    "7": ("simavr", "flood:published", (), (20,), (0,)),
    "8": ("simavr", "flood:published", ("control-loop",), (20,), (0, 1, 2)),
}  # fmt: skip
SWEPT = [(study, variable) for study, data in STUDIES.items() for variable in next(iter(data.arms.values()))]


def scenario(number: str, **given: str) -> Plan:
    return of_scenario(number, Settings.parse({name.upper(): value for name, value in given.items()}), RUN)


def study(name: str, **given: str) -> Plan:
    return of_study(name, {variable.upper(): value for variable, value in given.items()}, RUN)


def priorities(cell: Cell) -> dict[str, str]:
    return {service: knobs["priority"] for service, knobs in cell.conditions.record().items() if "priority" in knobs}


def test_nine_scenarios_are_those_of_the_thesis() -> None:
    assert set(THESIS) <= set(scenarios.REGISTRY.all())


@pytest.mark.parametrize("number", THESIS)
def test_a_scenario_has_the_thesis_conditions_with_the_priority_really_applied(number: str) -> None:
    board, contention, first, intervals_ms, qos = THESIS[number]
    cells = scenario(number).cells
    assert [(cell.interval_ms, cell.qos, cell.qos_answer) for cell in cells] == [
        (interval_ms, each, each) for interval_ms in intervals_ms for each in qos
    ]
    for cell in cells:
        assert cell.conditions.board.kind == board
        assert cell.record(0)["contention"] == contention
        assert priorities(cell) == dict.fromkeys(first, "fifo:90")
        assert {service: cell.conditions.record()[service]["tcp"] for service in ("broker", "control-loop", "pi")} == {
            "broker": "nodelay", "control-loop": "nodelay", "pi": "nodelay",
        }  # fmt: skip


@pytest.mark.parametrize("number", THESIS)
def test_fidelity_published_is_the_thesis_as_it_was(number: str) -> None:
    _, contention, first, _, _ = THESIS[number]
    for cell in scenario(number, fidelity="published").cells:
        assert {knobs["tcp"] for knobs in cell.conditions.record().values()} == {"nagle"}
        assert cell.conditions.tcp == "nagle"
        assert priorities(cell) == dict.fromkeys(first, "flags")
        assert cell.qos_answer == 0
        assert cell.record(0)["contention"] == contention


def test_what_is_said_beside_fidelity_published_counts() -> None:
    (cell,) = scenario("8", fidelity="published", tcp="nodelay", qos="2", qos_answer="1", priority="none").cells
    assert (cell.conditions.tcp, cell.qos_answer, priorities(cell)) == ("nodelay", 1, {})


@pytest.mark.parametrize(
    ("priority", "set_"),
    [
        ("published", {"broker": "flags", "control-loop": "flags"}), ("none", {}),
        ("broker=nice:-5", {"broker": "nice:-5", "control-loop": "fifo:90"}),
        ("control-loop=none", {"broker": "fifo:90", "control-loop": "none"}),
        ("pi=rr:3", {"broker": "fifo:90", "control-loop": "fifo:90", "pi": "rr:3"}),
    ],
)  # fmt: skip
def test_a_priority_replaces_the_scenarios_own_service_by_service(priority: str, set_: dict[str, str]) -> None:
    assert priorities(scenario("5", priority=priority).cells[0]) == set_


@pytest.mark.parametrize(
    ("number", "priority"),
    [
        ("1", "stressor=weight:2"), ("1", "flooder=fifo:1"), ("0", "board=flags"), ("2", "flooder=quota:0.5"),
        ("7", "stressor=nice:5"),
    ],
)  # fmt: skip
def test_a_knob_on_a_service_that_does_not_run_is_refused(number: str, priority: str) -> None:
    with pytest.raises(BadInputError, match="here run only broker, pi, control-loop") as caught:
        scenario(number, priority=priority)
    assert str(caught.value).startswith(f"PRIORITY={priority}: ")


def test_the_same_knob_is_taken_where_that_service_runs() -> None:
    assert dict(scenario("2", priority="stressor=weight:2").cells[0].conditions.knobs)["stressor"]


@pytest.mark.parametrize("level", ["published", "saturate", "50%", "mqtt-stresser"])
@pytest.mark.parametrize("number", ["1", "2"])
def test_a_flood_level_without_a_flood_is_refused(number: str, level: str) -> None:
    with pytest.raises(BadInputError, match="say CONTENTION=flood as well"):
        scenario(number, flood=level)
    (cell, *_) = scenario(number, flood=level, contention="flood").cells
    assert str(cell.conditions.contention) == (level if level == "mqtt-stresser" else f"flood:{level}")


def test_a_contention_can_be_taken_away_or_put_in_its_place() -> None:
    assert scenario("2", contention="none").cells[0].conditions.contention is None
    assert str(scenario("2", contention="memory").cells[0].conditions.contention) == "memory"


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_plans_all_its_arms_and_they_differ_in_nothing_but_what_is_swept(name: str) -> None:
    data = STUDIES[name]
    planned = study(name, seed="7")
    assert json.loads(json.dumps(planned.record()))["seed"] == 7
    assert list(dict.fromkeys(cell.arm for cell in planned.cells)) == list(data.arms)
    assert {cell.scenario for cell in planned.cells} == set(data.scenarios)
    by_arm = [[cell for cell in planned.cells if cell.arm == arm] for arm in data.arms]
    assert len({tuple((cell.interval_ms, cell.qos, cell.qos_answer) for cell in cells) for cells in by_arm}) == 1
    of_scenario = {(cell.scenario, str(cell.conditions.contention)) for cell in planned.cells}
    assert len(of_scenario) == len(data.scenarios)
    swept = {
        (str(cell.conditions.record()), str(cell.conditions.board), str(cell.conditions.fault), cell.conditions.session,
         cell.placement, cell.conditions.broker, cell.scenario)
        for cell in planned.cells
    }  # fmt: skip
    assert len(swept) == len(data.arms) * len(data.scenarios)
    assert set(next(iter(data.arms.values()))) == {variable for arm in data.arms.values() for variable in arm}


@pytest.mark.parametrize("name", STUDIES)
def test_a_studys_arms_are_interleaved_in_every_round(name: str) -> None:
    planned = study(name, repetitions="5", seed="7")
    order, size = planned.order(), len(planned.cells)
    rounds = [order[start : start + size] for start in range(0, len(order), size)]
    assert [{repetition for _, repetition in each} for each in rounds] == [{1}, {2}, {3}, {4}, {5}]
    assert all(sorted(cell for cell, _ in each) == list(range(size)) for each in rounds)
    assert len({tuple(cell for cell, _ in each) for each in rounds}) > 1, "not always in the same order"


@pytest.mark.parametrize(("name", "variable"), SWEPT)
def test_a_swap_of_what_a_study_varies_is_refused(name: str, variable: str) -> None:
    value = next(iter(STUDIES[name].arms.values()))[variable]
    with pytest.raises(BadInputError, match=f"^{variable}={value}: it is what study {name} varies; leave it out"):
        study(name, **{variable: value})


def test_other_swaps_hold_for_all_arms() -> None:
    cells = study("qos", intervals="10,5", qos="2", device="none").cells
    assert [(cell.arm, cell.interval_ms, cell.qos) for cell in cells] == [
        ("nodelay", 10, 2), ("nodelay", 5, 2), ("nagle", 10, 2), ("nagle", 5, 2),
    ]  # fmt: skip
    assert {str(cell.conditions.board) for cell in cells} == {"none"}


def test_the_affinity_arm_moves_to_the_cpus_that_no_contention_uses() -> None:
    (cell,) = [cell for cell in study("priority").cells if cell.arm == "affinity"]
    assert {knobs["affinity"] for knobs in cell.conditions.record().values() if "affinity" in knobs} == {
        f"cpus:{cpu_sets()[1]}"
    }


def test_an_unknown_study_is_refused_with_those_there_are() -> None:
    with pytest.raises(BadInputError, match="study=sleep: allowed are arduino, brokers, docker, faults, priority, qos"):
        study("sleep")

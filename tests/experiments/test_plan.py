# SPDX-License-Identifier: Apache-2.0
"""From a scenario to cells, and the order in which their repetitions run."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stand import reproducible

from experiments.plan import Plan, of_scenario
from experiments.scenarios import SCENARIOS
from experiments.variables import Settings

swaps = st.builds(
    Settings,
    intervals=st.lists(st.integers(1, 1000), min_size=1, max_size=5, unique=True).map(tuple),
    qos=st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True).map(tuple),
    repetitions=st.integers(1, 12), messages=st.integers(1, 500), warmup=st.integers(0, 10),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip


def plan(settings: Settings, scenario: str = "1") -> Plan:
    return of_scenario(scenario, settings, "0123abcd")


@reproducible
@given(swaps)
def test_every_repetition_of_every_cell_runs_exactly_once(settings: Settings) -> None:
    planned = plan(settings)
    assert settings.intervals
    assert settings.qos
    assert len(planned.cells) == len(settings.intervals) * len(settings.qos)
    everything = [(cell, each) for cell in range(len(planned.cells)) for each in range(1, settings.repetitions + 1)]
    assert sorted(planned.order()) == everything


@reproducible
@given(swaps)
def test_cells_are_interleaved_round_by_round(settings: Settings) -> None:
    planned = plan(settings)
    order = planned.order()
    size = len(planned.cells)
    for number, start in enumerate(range(0, len(order), size), 1):
        assert {repetition for _, repetition in order[start : start + size]} == {number}


@reproducible
@given(swaps)
def test_the_same_seed_gives_the_same_order_and_the_record_is_json(settings: Settings) -> None:
    assert plan(settings).order() == plan(settings).order()
    record = json.loads(json.dumps(plan(settings).record()))
    assert record["order"] == [list(pair) for pair in plan(settings).order()]
    assert [cell["cell"] for cell in record["cells"]] == list(range(len(record["cells"])))


def test_another_seed_gives_another_order() -> None:
    assert len({tuple(plan(Settings(seed=seed)).order()) for seed in range(10)}) == 10


def test_the_thesis_intervals_are_the_default() -> None:
    planned = plan(Settings())
    assert [(cell.interval_ms, cell.qos) for cell in planned.cells] == [(100, 0), (50, 0), (20, 0), (10, 0)]


def test_scenario_1_without_a_board_has_the_conditions_of_scenario_0() -> None:
    assert [cell.conditions for cell in plan(Settings(device="none")).cells] == [
        cell.conditions for cell in plan(Settings(), "0").cells
    ]


@pytest.mark.parametrize("number", sorted(SCENARIOS))
def test_a_bare_host_gets_the_model_where_the_scenario_has_a_board(number: str) -> None:
    ideal = SCENARIOS[number].device == "none"
    for placement, board in (("docker", "simavr"), ("host", "model")):
        cells = of_scenario(number, Settings(), "0123abcd", placement).cells
        assert {str(cell.conditions.board) for cell in cells} == {"none" if ideal else board}


def test_the_answer_has_the_requests_qos_unless_another_is_asked_for() -> None:
    assert [cell.qos_answer for cell in plan(Settings(qos=(0, 1, 2))).cells[:3]] == [0, 1, 2]
    assert {cell.qos_answer for cell in plan(Settings(qos=(0, 1, 2), qos_answer=0)).cells} == {0}


def test_a_repetitions_schedule_includes_its_warm_up() -> None:
    planned = plan(Settings(intervals=(20,), messages=100, warmup=5))
    assert planned.scheduled_s(planned.cells[0]) == pytest.approx(2.1)

# SPDX-License-Identifier: Apache-2.0
"""From a scenario to cells, and the order in which their repetitions run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.schedule import Job
from experiments import brokers, cli, images, roots
from experiments.brokers import Broker
from experiments.cells import Cell
from experiments.errors import BadInputError, StandError
from experiments.families import Study
from experiments.families.control import studies
from experiments.families.control.scenarios.thesis import THESIS
from experiments.plan import OF_THE_WHOLE_RUN, Plan, of_scenario, of_study
from experiments.variables import VARIABLES, Settings

swaps = st.builds(
    Settings,
    intervals=st.lists(st.integers(1, 1000), min_size=1, max_size=5, unique=True).map(tuple),
    qos=st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True).map(tuple),
    repetitions=st.integers(1, 12), messages=st.integers(1, 500), warmup=st.integers(0, 10),
    seed=st.integers(0, 2**32 - 1),
)  # fmt: skip


def plan(settings: Settings, scenario: str = "1") -> Plan:
    return of_scenario(scenario, settings, "0123abcd")


@given(swaps)
def test_every_repetition_of_every_cell_runs_exactly_once(settings: Settings) -> None:
    planned = plan(settings)
    assert settings.intervals
    assert settings.qos
    assert len(planned.cells) == len(settings.intervals) * len(settings.qos)
    everything = [(cell, each) for cell in range(len(planned.cells)) for each in range(1, settings.repetitions + 1)]
    assert sorted(planned.order()) == everything


@given(swaps)
def test_cells_are_interleaved_round_by_round(settings: Settings) -> None:
    planned = plan(settings)
    order = planned.order()
    size = len(planned.cells)
    for number, start in enumerate(range(0, len(order), size), 1):
        assert {repetition for _, repetition in order[start : start + size]} == {number}


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


@pytest.mark.parametrize("number", sorted(THESIS))
def test_a_bare_host_gets_the_model_where_the_scenario_has_a_board(number: str) -> None:
    ideal = THESIS[number].device == "none"
    for placement, board in (("docker", "simavr"), ("host", "model")):
        cells = of_scenario(number, Settings(), "0123abcd", placement).cells
        assert {str(cell.conditions.board) for cell in cells} == {"none" if ideal else board}


def test_the_answer_has_the_requests_qos_unless_another_is_asked_for() -> None:
    assert [cell.qos_answer for cell in plan(Settings(qos=(0, 1, 2))).cells[:3]] == [0, 1, 2]
    assert {cell.qos_answer for cell in plan(Settings(qos=(0, 1, 2), qos_answer=0)).cells} == {0}


def test_a_repetitions_schedule_includes_its_warm_up() -> None:
    planned = plan(Settings(intervals=(20,), messages=100, warmup=5))
    assert planned.scheduled_s(planned.cells[0]) == pytest.approx(2.1)


def study_of(monkeypatch: pytest.MonkeyPatch, **swaps: str) -> Plan:
    """A study whose second arm swaps these."""
    arms = {"usual": {}, "other": swaps}
    trial = Study("Does it matter?", ("0",), arms, ("T.p50",), {"INTERVALS": "20"})
    monkeypatch.setitem(studies.REGISTRY._kinds, "trial", trial)
    return of_study("trial", {}, "0123abcd", "host")


def test_what_an_arm_swaps_is_what_its_cells_run_with(monkeypatch: pytest.MonkeyPatch) -> None:
    usual, other = study_of(monkeypatch, BROKER="amqtt", MESSAGES="7", TIMEOUT_MS="77").cells
    assert (usual.messages, usual.timeout_ms) == (100, 1000)
    assert (other.conditions.broker, other.messages, other.timeout_ms) == ("amqtt", 7, 77)
    assert {name: other.record(1)[name] for name in ("broker", "messages", "timeout_ms")} == {
        "broker": "amqtt", "messages": 7, "timeout_ms": 77,
    }  # fmt: skip


def test_an_arms_messages_and_timeout_reach_the_control_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    planned = study_of(monkeypatch, MESSAGES="7", TIMEOUT_MS="77")
    job = planned.job(planned.cells[1], 1)
    assert isinstance(job, Job)
    assert (job.messages, job.timeout_ms) == (7, 77)
    assert planned.scheduled_s(planned.cells[1]) == pytest.approx(12 * 0.02)


@pytest.mark.parametrize("variable", sorted(OF_THE_WHOLE_RUN))
def test_an_arm_cannot_swap_what_holds_for_the_whole_run(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    with pytest.raises(
        BadInputError, match=rf"^{variable}=3: arm other of study trial swaps what holds for a whole run"
    ):
        study_of(monkeypatch, **{variable: "3"})


def test_every_variable_of_an_arm_acts_or_is_refused() -> None:
    """Whoever adds a variable must say which."""
    of_a_cell = {"INTERVALS", "QOS", "QOS_ANSWER", "MESSAGES", "TIMEOUT_MS", "DEVICE", "PLACEMENT", "TCP", "BROKER",
                 "PRIORITY", "CONTENTION", "FLOOD", "FIDELITY", "FAULT", "FAULT_AT_MS", "SECURITY",
                 "SESSION"}  # fmt: skip
    assert of_a_cell | OF_THE_WHOLE_RUN == set(VARIABLES)


def test_published_priorities_are_refused_where_the_thesis_sets_none() -> None:
    with pytest.raises(BadInputError, match=r"^PRIORITY=published: the thesis sets none in 'Arduino'"):
        plan(Settings(priority="published"))
    flags = plan(Settings(priority="published"), "5").cells[0].conditions.record()
    assert (flags["broker"]["priority"], flags["control-loop"]["priority"]) == ("flags", "flags")


def test_the_thesis_as_it_was_needs_no_priority_to_publish() -> None:
    assert plan(Settings(fidelity="published")).cells[0].conditions.tcp == "nagle"


def test_where_something_breaks_recovery_is_the_first_headline() -> None:
    broken = {"FAULT": "broker:kill", "INTERVALS": "20", "MESSAGES": "450"}
    assert plan(Settings.parse(broken)).record()["headline"] == ["recovery.p50", "T.p50", "T.p99"]
    assert plan(Settings.parse(broken | {"CONTENTION": "cpu"})).record()["headline"][0] == "recovery.p50"
    for study in ("faults", "sessions"):
        assert of_study(study, {}, "0123abcd").record()["headline"][0] == "recovery.p50"
    assert plan(Settings()).record()["headline"] == ["T.p50", "T.p99"]


def test_a_recovery_is_asserted_only_where_something_breaks_and_often_enough() -> None:
    asserted = {"ASSERT": "recovery<500ms", "INTERVALS": "20", "MESSAGES": "450"}
    with pytest.raises(BadInputError, match="nothing breaks, so nothing recovers; say FAULT=… as well"):
        plan(Settings.parse(asserted)).require_enough()
    with pytest.raises(BadInputError, match="an interval needs REPETITIONS=6 at least"):
        plan(Settings.parse(asserted | {"FAULT": "broker:kill", "REPETITIONS": "5"})).require_enough()
    plan(Settings.parse(asserted | {"FAULT": "broker:kill"})).require_enough()


def test_a_study_of_two_placements_says_what_else_differs() -> None:
    assert "in place of loopback" in of_study("docker", {}, "0123abcd").record()["note"]
    assert "note" not in of_study("priority", {}, "0123abcd").record()


def test_several_brokers_are_arms_interleaved_and_one_alone_is_none() -> None:
    swept = plan(Settings(broker="mosquitto,mochi", intervals=(20,), qos=(0, 1)))
    assert [(cell.arm, cell.conditions.broker, cell.qos) for cell in swept.cells] == [
        ("mosquitto", "mosquitto", 0), ("mosquitto", "mosquitto", 1), ("mochi", "mochi", 0), ("mochi", "mochi", 1),
    ]  # fmt: skip
    assert {(cell.arm, cell.conditions.broker) for cell in plan(Settings(broker="mochi")).cells} == {("", "mochi")}


def test_brokers_are_swept_within_the_arms_of_a_study() -> None:
    given_ = {"BROKER": "mosquitto,mochi", "QOS": "0"}
    arms = dict.fromkeys(cell.arm for cell in of_study("qos", given_, "0123abcd").cells)
    assert list(arms) == ["nodelay, mosquitto", "nodelay, mochi", "nagle, mosquitto", "nagle, mochi"]


def test_the_study_of_brokers_puts_each_to_both_scenarios_beside_mosquitto() -> None:
    cells = of_study("brokers", {}, "0123abcd").cells
    assert cells[0].arm == "mosquitto"
    assert {(cell.arm, cell.scenario) for cell in cells} == {
        (kind, scenario) for kind in studies.REGISTRY.all()["brokers"].arms for scenario in ("1", "5")
    }
    assert all(cell.arm == cell.conditions.broker for cell in cells)


def test_of_several_brokers_what_one_cannot_do_is_left_out_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(roots, "FOLDER", tmp_path)

    def possible(brokers: str, *qos: int) -> Plan:
        settings = Settings(broker=brokers, device="none", qos=qos, intervals=(20,))
        return cli._possible(of_scenario("1", settings, "0123abcd", "host"))

    kept = possible("amqtt,rabbitmq", 0, 2)
    assert [(cell.arm, cell.qos) for cell in kept.cells] == [("amqtt", 0), ("amqtt", 2)]
    ((arm, reason),) = kept.left_out
    assert (arm, reason.startswith("BROKER=rabbitmq: it runs in containers only, for ")) == ("rabbitmq", True)
    assert cli._notices(kept, None) == [f"left out: arm rabbitmq: {reason}"]
    with pytest.raises(BadInputError, match="BROKER=mochi: its program is not here"):
        possible("rabbitmq,mochi", 0)


def test_a_broker_without_an_image_is_left_out_of_a_comparison_and_refused_alone() -> None:
    def built(cell: Cell) -> None:
        if cell.arm != "amqtt":
            raise BadInputError("BROKER", "mochi", "its image cannot be built here: no way to the proxy; name another")

    kept = cli._with_those(plan(Settings(broker="amqtt,mochi", intervals=(20,))), built)
    assert {cell.arm for cell in kept.cells} == {"amqtt"}
    assert [arm for arm, _ in kept.left_out] == ["mochi"]
    for nothing_else in (Settings(broker="mochi"), Settings(broker="mochi,ponte")):
        with pytest.raises(BadInputError, match="BROKER=mochi: its image cannot be built here: no way to the proxy"):
            cli._with_those(plan(nothing_else), built)


def test_of_brokers_that_fail_together_each_is_built_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def ensure(_client: object, kinds: Sequence[Broker]) -> str:
        asked.append([broker.kind for broker in kinds])
        if "mochi" in asked[-1]:
            raise StandError("docker compose failed:\ngo: no way to the proxy\n")
        return "images"

    monkeypatch.setattr(images, "ensure", ensure)
    kinds = [brokers.parse(kind) for kind in ("amqtt", "mochi")]
    client: Any = None
    built: Any = images.ensure_able(client, kinds)
    assert built == ("images", {"mochi": "go: no way to the proxy"})
    assert asked == [["amqtt", "mochi"], ["amqtt"], ["mochi"], ["amqtt"]]

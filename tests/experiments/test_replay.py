# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from experiments import plan
from experiments.errors import BadInputError
from experiments.replay import Recorded
from experiments.scenarios import SCENARIOS
from experiments.studies import STUDIES, Study
from experiments.variables import Settings


def recorded(folder: Path, planned: plan.Plan, **changes: Any) -> Recorded:
    facts = {
        "name": planned.name,
        "started_utc": "2026-11-21T03:00:00Z",
        "placement": "docker",
        "host": {},
        "git": None,
    }
    (folder / "bundle.json").write_text(json.dumps(facts | {"plan": planned.record()} | changes))
    return Recorded.read(folder)


@pytest.mark.parametrize("number", SCENARIOS)
def test_a_scenario_is_planned_again_as_it_was(tmp_path: Path, number: str) -> None:
    planned = plan.of_scenario(number, Settings.parse({"SEED": "7", "REPETITIONS": "3"}), "0123abcd")
    again = recorded(tmp_path, planned).plan("89abcdef")
    assert again.cells == planned.cells
    assert again.order() == planned.order()
    assert again.settings.seed == 7


@pytest.mark.parametrize("name", STUDIES)
def test_a_study_is_planned_again_as_it_was(tmp_path: Path, name: str) -> None:
    planned = plan.of_study(name, {"SEED": "7"}, "0123abcd")
    again = recorded(tmp_path, planned).plan("89abcdef")
    assert (again.cells, again.order()) == (planned.cells, planned.order())


def test_levels_and_swaps_survive(tmp_path: Path) -> None:
    swaps = {
        "FLOOD": "50%",
        "PRIORITY": "broker=fifo:80+cpus:0",
        "QOS": "2",
        "QOS_ANSWER": "0",
        "TCP": "nagle",
        "SEED": "1",
    }
    planned = plan.of_scenario("7", Settings.parse(swaps), "0123abcd")
    assert recorded(tmp_path, planned).plan("89abcdef").cells == planned.cells


def test_brokers_messages_and_timeouts_of_arms_survive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arms = {"amqtt": {"BROKER": "amqtt", "MESSAGES": "7"}, "slow": {"BROKER": "mosquitto", "TIMEOUT_MS": "5000"}}
    monkeypatch.setitem(STUDIES, "trial", Study("Which broker?", "0", arms))
    planned = plan.of_study("trial", {"SEED": "7"}, "0123abcd", "host")
    assert recorded(tmp_path, planned).plan("89abcdef").cells == planned.cells


@pytest.mark.parametrize("text", ["", "{", "[]", '{"plan": {}}', '{"plan": {"cells": []}, "name": "x"}'])
def test_a_bundle_without_a_plan_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "bundle.json").write_text(text)
    with pytest.raises(BadInputError, match=r"BUNDLE=.*no readable bundle\.json"):
        Recorded.read(tmp_path)


def test_what_cannot_be_matched_is_named(tmp_path: Path) -> None:
    planned = plan.of_scenario("0", Settings.parse({"SEED": "1"}), "0123abcd")
    differences = recorded(tmp_path, planned, host={"kernel": "2.6.32", "cpus": 4096}).differences()
    assert any(line.startswith("kernel: was 2.6.32, is ") for line in differences)
    assert any(line.startswith("cpus: was 4096, is ") for line in differences)

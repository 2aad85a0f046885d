# SPDX-License-Identifier: Apache-2.0
"""A replay plans what was recorded, and believes nothing: a bundle says no more than the command line could."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker.errors
import pytest

from experiments import differences, images, plan, replay
from experiments.boards import usb
from experiments.errors import BadInputError
from experiments.families import Study
from experiments.families.control import studies
from experiments.families.control.scenarios.thesis import THESIS
from experiments.replay import Recorded
from experiments.variables import Settings

ID = "sha256:" + "a" * 64


def recorded(folder: Path, planned: plan.Plan, **changes: Any) -> Recorded:
    facts = {
        "schema_version": 1, "name": planned.name, "status": "complete", "command": ["make", planned.name],
        "started_utc": "2026-11-21T03:00:00Z", "placement": "docker", "notice": None, "host": {}, "git": None,
        "engine": None, "images": {}, "repetitions": [],
    }  # fmt: skip
    (folder / "bundle.json").write_text(json.dumps(facts | {"plan": planned.record()} | changes))
    return Recorded.read(folder)


def scenario(number: str = "1", **swaps: str) -> plan.Plan:
    return plan.of_scenario(number, Settings.parse({"SEED": "7", "REPETITIONS": "3"} | swaps), "0123abcd")


def with_cell(folder: Path, **changes: Any) -> Recorded:
    planned = scenario().record()
    planned["cells"][0] |= changes
    return recorded(folder, scenario(), plan=planned)


@pytest.mark.parametrize("number", THESIS)
def test_a_scenario_is_planned_again_as_it_was(tmp_path: Path, number: str) -> None:
    planned = scenario(number)
    again = recorded(tmp_path, planned).plan("89abcdef")
    assert again.cells == planned.cells
    assert again.order() == planned.order()
    assert again.settings.seed == 7


@pytest.mark.parametrize("name", studies.REGISTRY.all())
def test_a_study_is_planned_again_as_it_was(tmp_path: Path, name: str) -> None:
    planned = plan.of_study(name, {"SEED": "7"}, "0123abcd")
    again = recorded(tmp_path, planned).plan("89abcdef")
    assert (again.cells, again.order()) == (planned.cells, planned.order())


def test_levels_and_swaps_survive(tmp_path: Path) -> None:
    planned = scenario("7", FLOOD="50%", PRIORITY="broker=fifo:80+cpus:0", QOS="2", QOS_ANSWER="0", TCP="nagle")
    assert recorded(tmp_path, planned).plan("89abcdef").cells == planned.cells


def test_brokers_messages_and_timeouts_of_arms_survive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arms = {"amqtt": {"BROKER": "amqtt", "MESSAGES": "7"}, "slow": {"BROKER": "mosquitto", "TIMEOUT_MS": "5000"}}
    monkeypatch.setitem(studies.REGISTRY._kinds, "trial", Study("Which broker?", ("0",), arms, ("T.p50",)))
    planned = plan.of_study("trial", {"SEED": "7"}, "0123abcd", "host")
    assert recorded(tmp_path, planned).plan("89abcdef").cells == planned.cells


def test_a_replay_of_a_run_with_a_capture_has_one(tmp_path: Path) -> None:
    planned = dataclasses.replace(scenario(), captured=True)
    assert recorded(tmp_path, planned).plan("89abcdef").captured


def test_a_replay_of_a_run_with_a_precision_looks_as_often(tmp_path: Path) -> None:
    planned = scenario(PRECISION="2.5%", REPETITIONS="12")
    again = recorded(tmp_path, planned).plan("89abcdef")
    assert again.record()["sequential"] == planned.record()["sequential"]


def test_a_replay_measures_the_broker_that_was_measured(tmp_path: Path) -> None:
    planned = scenario(BROKER="amqtt", PLACEMENT="host")
    assert {cell.conditions.broker for cell in recorded(tmp_path, planned).plan("89abcdef").cells} == {"amqtt"}


def test_the_broker_of_a_bundle_that_names_none_is_told_by_its_version(tmp_path: Path) -> None:
    older = scenario().record()
    for cell in older["cells"]:
        del cell["broker"], cell["messages"], cell["timeout_ms"]
        cell["placement"] = "host"
    images_then = {"broker": {"reference": None, "id": None, "version": "amqtt 0.11.3"}}
    again = recorded(tmp_path, scenario(), plan=older, placement="host", images=images_then).plan("89abcdef")
    assert {cell.conditions.broker for cell in again.cells} == {"amqtt"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"plan": {}}', '{"plan": {"cells": []}, "name": "x"}'])
def test_a_bundle_without_a_plan_is_refused_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "bundle.json").write_text(text)
    with pytest.raises(BadInputError, match=r"BUNDLE=.*: bundle\.json: ") as caught:
        Recorded.read(tmp_path)
    assert str(caught.value).isprintable()


def test_a_plan_without_cells_is_nothing_to_replay(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="no cells"):
        recorded(tmp_path, scenario(), plan=scenario().record() | {"cells": []})


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"interval_ms": 0}, "a whole number from 1 to 60000"),
        ({"interval_ms": -5}, "a whole number from 1 to 60000"),
        ({"qos": 7}, "a whole number from 0 to 2"),
        ({"messages": 10**12}, "a whole number from 1 to 1000000"),
        ({"placement": "cloud"}, "one of docker, host"),
        ({"placement": "docker+host"}, "one of docker, host"),
        ({"scenario": "../../../tmp/x"}, "a name of at most"),
        ({"device": "usb:/dev/kvm"}, "a bundle cannot choose a device"),
        ({"device": None, "board": "usb"}, "a bundle cannot choose a device"),
        ({"device": "usbstick"}, "allowed are"),
        ({"broker": "rabbit"}, "BROKER=rabbit"),
        ({"contention": "rm"}, "CONTENTION=rm"),
        ({"contention": "flood:101%"}, "FLOOD=101%"),
        ({"knobs": {"observer": {"priority": "fifo:90"}}}, "PRIORITY=observer"),
        ({"knobs": {"broker": {"priority": "fifo:100"}}}, "from 1 to 99"),
        ({"knobs": {"broker": {"priority": "image:evil"}}}, "PRIORITY=image:evil"),
        ({"knobs": {"broker": {"weight": "fifo:90"}}}, "yet is recorded as weight"),
        ({"knobs": {"broker": {"tcp": "fast"}}}, "TCP=fast"),
        ({"knobs": {"flooder": {"priority": "nice:5"}}}, "here run only"),
    ],
    ids=str,
)
def test_what_the_command_line_would_not_take_is_refused_in_one_line(
    tmp_path: Path, changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(BadInputError) as caught:
        with_cell(tmp_path, **changes).plan("89abcdef")
    assert told in str(caught.value)
    assert str(caught.value).isprintable()


def test_a_port_that_the_user_names_stands_in_for_the_bundles_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usb, "_is_serial", lambda _device: True)  # this machine has none
    again = with_cell(tmp_path, device="usb:/dev/kvm").plan("89abcdef", {"DEVICE": "usb:/dev/null"})
    assert [str(cell.conditions.board) for cell in again.cells] == ["usb:/dev/null", "simavr", "simavr", "simavr"]


def test_a_fault_of_the_machine_itself_takes_its_users_word(tmp_path: Path) -> None:
    again = with_cell(tmp_path, fault="clock:step:3600s", interval_ms=100, messages=1000, fault_at_ms=5000)
    for named in ({}, {"FAULT": "clock:step:1s"}, {"FAULT": "broker:kill"}):
        with pytest.raises(BadInputError, match="say FAULT=clock:step:3600s to allow it"):
            again.plan("89abcdef", named)
    assert str(again.plan("89abcdef", {"FAULT": "clock:step:3600s"}).cells[0].conditions.fault) == "clock:step:3600s"


def test_a_replay_takes_no_variable_but_what_only_its_user_may_name() -> None:
    given = {"BUNDLE": "x", "DEVICE": "usb:/dev/null", "FAULT": "clock:step:1s"}
    assert replay.named(given) == {"DEVICE": "usb:/dev/null", "FAULT": "clock:step:1s"}
    assert replay.named({}) == {}
    with pytest.raises(BadInputError, match="MESSAGES=5: a replay runs the plan as it was recorded"):
        replay.named({"MESSAGES": "5"})


class Engine:
    """Local images: by id, what the engine's API tells of each."""

    def __init__(self, **attributes: dict[str, Any]) -> None:
        self.images = self
        self._local = {f"sha256:{name * 64}": facts for name, facts in attributes.items()}

    def get(self, wanted: str) -> SimpleNamespace:
        if wanted not in self._local:
            raise docker.errors.ImageNotFound(wanted)
        return SimpleNamespace(id=wanted, attrs=self._local[wanted])


def test_an_image_is_taken_only_where_its_service_would_run_it_anyway() -> None:
    engine = Engine(
        a={"RepoTags": ["testbed/client:latest"]},
        b={"RepoTags": [], "Config": {"Labels": {images.LABEL: "testbed/pi"}}},
        c={"RepoTags": ["debian:trixie"], "Config": None},
        d={"RepoTags": None, "RepoDigests": ["eclipse-mosquitto@sha256:0"]},
    )

    def here(**wanted: str) -> list[str]:
        ids = {service.replace("_", "-"): f"sha256:{name * 64}" for service, name in wanted.items()}
        return sorted(replay.images_here(engine, ids, images.repositories()))

    assert here(control_loop="a", pi="b", broker="d") == ["broker", "control-loop", "pi"]
    assert here(control_loop="c", pi="c", broker="c", stressor="c") == []
    assert here(pi="a", broker="b") == []
    assert here(broker="e") == []


def test_the_observer_is_never_a_bundles_own() -> None:
    engine = Engine(a={"RepoTags": ["testbed/observer:latest"]})
    assert replay.images_here(engine, {"observer": ID, "capture": ID}, images.repositories()) == {}


def lines(folder: Path, **changes: Any) -> list[str]:
    again = recorded(folder, scenario("0", PLACEMENT="host", BROKER="amqtt"), **({"placement": "host"} | changes))
    return differences.lines(again.facts, differences.here(again.facts, again.plan("89abcdef"), {}))


def test_what_differs_is_told_with_what_it_can_mean_the_worst_first(tmp_path: Path) -> None:
    told = lines(
        tmp_path, host={"kernel": "2.6.32", "cpus": 4096, "machine": "vax"}, git={"revision": "0" * 40, "dirty": False}
    )
    assert told[0].startswith("replay of scenario-0 of 2026-11-21T03:00:00Z: ")
    assert any(line.startswith("may move latency: kernel was 2.6.32, is ") for line in told)
    assert any(line.startswith("weakens what it shows: CPUs was 4096, is ") for line in told)
    assert any(line.startswith("weakens what it shows: revision was 000") for line in told)
    effects = [line.partition(":")[0] for line in told[1:]]
    assert effects == sorted(effects, key=[effect.value for effect in differences.Effect].index)


def test_where_nothing_differs_that_is_said(tmp_path: Path) -> None:
    assert lines(tmp_path)[0].endswith("nothing that was recorded of its surroundings differs here")

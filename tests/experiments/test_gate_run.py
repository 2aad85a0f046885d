# SPDX-License-Identifier: Apache-2.0
"""`make gate`: what it runs, what it may be told, and how it ends."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from stand import ROOT, Runner

from experiments import gate
from experiments.errors import BadInputError, RefusedError

QUICK = ("PLACEMENT=host", "DEVICE=none", "BROKER=amqtt", "INTERVALS=5", "MESSAGES=30", "WARMUP=0", "REPETITIONS=4")


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runner = Runner(tmp_path_factory.mktemp("baseline"))
    code, said = runner.run("run", "0", *QUICK)
    assert code == 0, said
    return runner.bundle.resolve()


def test_a_gate_runs_the_baselines_plan_and_ends_as_its_verdict_says(baseline: Path, runner: Runner) -> None:
    code, said = runner.run("gate", str(baseline), "MARGIN=30%")
    document = json.loads((runner.bundle / "gate.json").read_text())
    assert code == document["exit_code"], said
    assert document["sentence"] in " ".join(said.split())
    assert document["sentence"].split(":")[0] in {"Not slower", "Slower", "Cannot tell"}
    facts = runner.facts()
    assert facts["name"] == "gate-scenario-0"
    assert [cell["broker"] for cell in facts["plan"]["cells"]] == ["amqtt"]
    assert (facts["plan"]["repetitions"], facts["plan"]["messages"]) == (4, 30)
    done = subprocess.run(
        [sys.executable, "-m", "analysis", "verify", str(runner.bundle)], cwd=ROOT, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_what_is_under_test_replaces_the_baselines(baseline: Path) -> None:
    asked = gate.read(baseline, {"BROKER": "mosquitto", "TCP": "nodelay", "REPETITIONS": "7", "BASELINE": "x"})
    planned = asked.plan("0123abcd")
    assert {cell.conditions.broker for cell in planned.cells} == {"mosquitto"}
    assert planned.settings.repetitions == 7
    assert gate.read(baseline, {"PRIORITY": "broker=nice:-5"}).plan("0123abcd").cells[0].conditions.record()[
        "broker"
    ] == {"priority": "nice:-5", "tcp": "nodelay"}


def test_it_runs_as_long_as_the_baseline_unless_the_user_says_or_until_it_can_tell(baseline: Path) -> None:
    def length(**given: str) -> tuple[int, float | None]:
        settings = gate.read(baseline, given).plan("0123abcd").settings
        return settings.repetitions, settings.precision

    assert length() == (4, None)
    assert length(REPETITIONS="20") == (20, None)
    assert length(PRECISION="5%") == (40, 5.0)
    told = gate.read(baseline, {"PRECISION": "5%", "MARGIN": "7%"}).plan("0123abcd").looked_at
    assert told == ("--baseline", str(baseline), "--margin-percent", "7")


def test_an_image_is_refused_where_plain_processes_would_ignore_it(baseline: Path, runner: Runner) -> None:
    for words in (("gate", str(baseline)), ("run", "0", *QUICK)):
        code, said = runner.run(*words, "BROKER_IMAGE=mine")
        assert code == 2, said
        assert "BROKER_IMAGE=mine: plain processes have no image" in " ".join(said.split())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"MESSAGES": "5"}, "MESSAGES=5: a gate runs the baseline's plan; it takes only BROKER, TCP, PRIORITY"),
        ({"MARGIN": "wide"}, "MARGIN=wide: "),
        ({"FORCE": "perhaps"}, "FORCE=perhaps: allowed are yes, no"),
        ({"BROKER": "rabbit"}, "BROKER=rabbit: allowed are"),
        ({"TCP": "on"}, "TCP=on: allowed are"),
        ({"PRIORITY": "toaster=fifo:1"}, "services are"),
    ],
)
def test_what_a_gate_cannot_take_is_refused_in_a_line(baseline: Path, given: dict[str, str], told: str) -> None:
    with pytest.raises(BadInputError) as refusal:
        gate.read(baseline, given).plan("0123abcd")
    assert told in str(refusal.value)


def test_a_baseline_of_another_machine_is_refused_unless_forced(baseline: Path, tmp_path: Path) -> None:
    facts = json.loads((baseline / "bundle.json").read_text())
    facts["host"]["cpus"] = 64
    (tmp_path / "bundle.json").write_text(json.dumps(facts))
    with pytest.raises(RefusedError, match=r"^cannot tell: the baseline was measured on another machine \(cpus 64 → "):
        gate.read(tmp_path, {}).require_machine()
    gate.read(tmp_path, {"FORCE": "yes"}).require_machine()
    gate.read(baseline, {}).require_machine()


def test_what_the_baselines_arms_differ_in_cannot_be_swapped(baseline: Path, tmp_path: Path) -> None:
    facts = json.loads((baseline / "bundle.json").read_text())
    cell = facts["plan"]["cells"][0]
    facts["plan"]["cells"] = [cell | {"arm": "a"}, cell | {"cell": 1, "arm": "b", "broker": "mosquitto"}]
    (tmp_path / "bundle.json").write_text(json.dumps(facts))
    with pytest.raises(BadInputError, match="BROKER=amqtt: it is what the baseline's arms differ in"):
        gate.read(tmp_path, {"BROKER": "amqtt"})


def test_no_baseline_is_said_in_a_line(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="BUNDLE="):
        gate.read(tmp_path / "nothing", {})

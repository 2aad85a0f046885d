# SPDX-License-Identifier: Apache-2.0
"""A candidate against its baseline, as the CI of a broker asks."""

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
import synthetic
from synthetic import CellSpec, Latency, Spec
from test_analysis_cli import run

from analysis import gate
from analysis.bundle import read
from analysis.checks import FAIL, PASS, UNKNOWN, Check, Outcome, as_junit

STEADY = Latency(between_us=20)


def written(folder: Path, cell: CellSpec, **values: Any) -> Path:
    return synthetic.write(folder, Spec(cells=(cell,), **{"repetitions": 10, **values}))


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    return written(tmp_path / "baseline", CellSpec(latency=STEADY))


def candidate(folder: Path, shift_us: float = 0, lost: int = 0, **values: Any) -> Path:
    cell = CellSpec(latency=Latency(between_us=20, shift_us=shift_us), lost=lost)
    return written(folder, cell, **{"data_seed": 2, **values})


def judged(baseline: Path, other: Path, **options: Any) -> Outcome:
    return gate.judge(read(baseline), read(other), **options)


def test_the_same_again_is_not_slower(baseline: Path, tmp_path: Path) -> None:
    outcome = judged(baseline, candidate(tmp_path / "b"), margin_percent=60)
    assert (outcome.verdict, outcome.code) == (PASS, 0)
    assert outcome.sentence.startswith("Not slower: ")


def test_half_a_millisecond_more_is_slower_and_less_is_not(baseline: Path, tmp_path: Path) -> None:
    outcome = judged(baseline, candidate(tmp_path / "slow", shift_us=500))
    assert (outcome.verdict, outcome.code) == (FAIL, 1)
    assert outcome.sentence.startswith("Slower: ")
    assert "median of T" in outcome.sentence
    fast = judged(baseline, candidate(tmp_path / "fast", shift_us=-300), margin_percent=60)
    assert fast.verdict == PASS


def test_a_difference_within_the_margin_does_not_matter_even_if_it_is_sure(baseline: Path, tmp_path: Path) -> None:
    slow = candidate(tmp_path / "b", shift_us=500)
    assert judged(baseline, slow, margin_percent=60).verdict == PASS


def test_a_noisy_candidate_cannot_be_told(tmp_path: Path) -> None:
    restless = Latency(between_us=900)
    baseline = written(tmp_path / "a", CellSpec(latency=restless))
    noisy = written(tmp_path / "b", CellSpec(latency=restless), data_seed=2)
    outcome = judged(baseline, noisy)
    assert (outcome.verdict, outcome.code) == (UNKNOWN, 3)
    assert outcome.sentence.startswith("Cannot tell: ")


def test_another_host_or_a_run_that_ended_early_cannot_be_told_unless_the_first_is_forced(
    baseline: Path, tmp_path: Path
) -> None:
    elsewhere = candidate(tmp_path / "elsewhere", host={"cpus": 64})
    outcome = judged(baseline, elsewhere, margin_percent=60)
    assert (outcome.verdict, outcome.code) == (UNKNOWN, 3)
    assert "host cpus: 2 → 64" in outcome.sentence
    assert judged(baseline, elsewhere, margin_percent=60, force=True).verdict == PASS
    partial = candidate(tmp_path / "partial", status="partial")
    for force in (False, True):
        assert judged(baseline, partial, force=force).verdict == UNKNOWN


def test_what_was_swapped_in_is_said_in_the_sentence(tmp_path: Path) -> None:
    def with_broker(kind: str) -> Any:
        return lambda document: document["plan"]["cells"][0].update(broker=kind)

    before = written(tmp_path / "before", CellSpec(latency=STEADY), edit=with_broker("mosquitto"))
    after = candidate(tmp_path / "after", edit=with_broker("amqtt"))
    assert "Differs: broker: mosquitto → amqtt." in judged(before, after).sentence


def test_the_command_ends_with_the_verdict_and_leaves_files_for_ci(baseline: Path, tmp_path: Path) -> None:
    slow = candidate(tmp_path / "b", shift_us=2000)
    done = run("gate", baseline, slow)
    assert done.returncode == 1
    assert done.stdout.startswith("Slower: ")
    document = json.loads((slow / "gate.json").read_text())
    assert (document["verdict"], document["exit_code"]) == (FAIL, 1)
    assert document["sentence"] in (slow / "gate.md").read_text()
    suite = ET.fromstring((slow / "gate.xml").read_text())
    assert int(suite.get("failures") or 0) == len(suite.findall("./testcase/failure")) > 0
    assert int(suite.get("tests") or 0) == len(document["checks"])
    assert run("verify", slow).returncode == 0


def test_junit_survives_any_text_and_tells_what_cannot_be_told_as_an_error() -> None:
    checks = (Check('a<b>&"c"', "p99 of O", UNKNOWN, "too few"), Check("x", "y", PASS, "[−1, 2] ms"))
    suite = ET.fromstring(as_junit(Outcome("gate", "Cannot tell.", checks)))
    assert suite.find("testcase").get("classname") == 'a<b>&"c"'  # type: ignore[union-attr]
    assert suite.get("errors") == "1"


def test_who_loses_more_does_not_pass_however_fast_its_answers(baseline: Path, tmp_path: Path) -> None:
    outcome = judged(baseline, candidate(tmp_path / "b", shift_us=-300, lost=10), margin_percent=50)
    assert outcome.verdict == FAIL
    assert ("share of lost cycles", FAIL) in {(check.what, check.verdict) for check in outcome.checks}

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

from analysis.judging import compare, gate
from analysis.judging.checks import FAIL, PASS, UNKNOWN, Check, Outcome, as_junit
from analysis.judging.compare import Claim
from analysis.reading.bundle import read
from analysis.reading.selection import select
from schema.looks import looks

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


def read_claims(baseline: Path, other: Path) -> list[Claim]:
    """Those of the first headline."""
    a, b = (select(str(folder), read) for folder in (baseline, other))
    return [claim for claim in compare.compare(a, b).claims if (claim.metric, claim.statistic) == ("T", "p50")]


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


def test_a_difference_that_is_sure_but_smaller_than_the_margin_fails_nobody(baseline: Path, tmp_path: Path) -> None:
    slow = candidate(tmp_path / "b", shift_us=100)
    (first, *_) = read_claims(baseline, slow)
    inside = first.difference / first.a * 100 * 1.2  # of per cent: beyond the difference, within its interval
    assert first.low > 0, "sure to be slower"
    assert inside < first.high / first.a * 100
    outcome = judged(baseline, slow, margin_percent=inside)
    assert (outcome.verdict, outcome.code) == (UNKNOWN, 3)
    assert "it may still lie inside the margin" in outcome.sentence


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


def test_a_later_headline_that_cannot_be_told_is_named_and_lets_the_first_one_pass(tmp_path: Path) -> None:
    steady_but_for_its_tail = Latency(between_us=20, spread_us=900)
    cell = CellSpec(latency=steady_but_for_its_tail)
    baseline, same = (written(tmp_path / name, cell, data_seed=seed) for name, seed in (("a", 1), ("b", 2)))
    outcome = judged(baseline, same, margin_percent=25)
    assert outcome.verdict == PASS
    assert {check.what: check.verdict for check in outcome.checks if not check.decides} == {"p99 of T": UNKNOWN}
    assert "of p99 of T it cannot tell" in outcome.sentence
    suite = ET.fromstring(as_junit(outcome))
    assert (suite.get("errors"), suite.get("failures"), suite.get("skipped")) == ("0", "0", "1")


def test_a_later_headline_that_is_slower_fails_the_candidate(baseline: Path, tmp_path: Path) -> None:
    outcome = judged(baseline, candidate(tmp_path / "b", shift_us=500))
    assert FAIL in {check.verdict for check in outcome.checks if not check.decides}
    told = Outcome("gate", "", tuple(check for check in outcome.checks if not check.decides))
    assert told.verdict == FAIL


def test_who_loses_more_does_not_pass_however_fast_its_answers(baseline: Path, tmp_path: Path) -> None:
    outcome = judged(baseline, candidate(tmp_path / "b", shift_us=-300, lost=10), margin_percent=50)
    assert outcome.verdict == FAIL
    assert ("share of lost cycles", FAIL) in {(check.what, check.verdict) for check in outcome.checks}


def test_a_tail_that_moved_with_r_is_the_machines_and_cannot_be_told(tmp_path: Path) -> None:
    baseline = written(tmp_path / "a", CellSpec(latency=STEADY))
    disturbed = Latency(between_us=20, shift_us=2000, r_us=6300)
    outcome = judged(baseline, written(tmp_path / "b", CellSpec(latency=disturbed), data_seed=2))
    assert outcome.verdict == UNKNOWN
    assert "the board was disturbed" in outcome.sentence


def test_deadlines_missed_beside_a_disturbed_board_are_the_machines_as_well(tmp_path: Path) -> None:
    baseline = written(tmp_path / "a", CellSpec(latency=STEADY))
    late = Latency(between_us=20, shift_us=2000, r_us=25_000)
    outcome = judged(baseline, written(tmp_path / "b", CellSpec(latency=late), data_seed=2))
    assert {check.what: check.verdict for check in outcome.checks}["share of missed deadlines"] == UNKNOWN


def noisy(count: int) -> Any:
    def edit(document: dict[str, Any]) -> None:
        for entry in document["repetitions"][:count]:
            entry |= {"validity": "noisy", "reasons": ["foreign_cpu_percent 83 is above 10"]}

    return edit


def test_a_machine_that_was_busy_only_for_one_of_the_two_explains_a_difference_as_well(tmp_path: Path) -> None:
    quiet, busy = (written(tmp_path / name, CellSpec(latency=STEADY), edit=noisy(count)) for name, count in
                   [("quiet", 1), ("busy", 9)])  # fmt: skip
    slow = candidate(tmp_path / "slow", shift_us=2000, edit=noisy(9))
    outcome = judged(quiet, slow)
    assert outcome.verdict == UNKNOWN
    assert "noisy repetitions: 1 of 10 → 9 of 10: the machine was busier under the candidate" in outcome.sentence
    assert judged(quiet, slow, force=True).verdict == FAIL
    assert judged(busy, slow).verdict == FAIL
    assert "busier under the baseline" in judged(busy, candidate(tmp_path / "c"), margin_percent=60).sentence


def looked(document: dict[str, Any]) -> None:
    """Make it a run with PRECISION of at most 40 repetitions that still runs."""
    at = [{"repetitions": look.repetitions, "share": look.share} for look in looks(40)]
    document |= {"status": "partial"}
    document["plan"] |= {"repetitions": 40, "sequential": {"precision_percent": 5, "looks": at}}
    document["plan"]["order"] = [[0, number] for number in range(1, 41)]


@pytest.mark.parametrize("shift_us", [2000, -2000, 0])
def test_a_gate_with_precision_ends_as_soon_as_it_can_tell(baseline: Path, tmp_path: Path, shift_us: float) -> None:
    seen = gate.look(read(baseline), read(candidate(tmp_path / "b", shift_us=shift_us, edit=looked)))
    assert seen["stop"] is True, seen
    assert seen["repetitions"] == 10
    assert seen["reason"].startswith("Slower: " if shift_us > 0 else "Not slower: ")


def test_a_gate_with_precision_goes_on_while_it_cannot_tell(tmp_path: Path) -> None:
    restless = CellSpec(latency=Latency(between_us=900))
    baseline = written(tmp_path / "a", restless)
    seen = gate.look(read(baseline), read(written(tmp_path / "b", restless, data_seed=2, edit=looked)))
    assert seen["stop"] is False, seen


def test_what_cannot_be_told_does_not_hide_what_can(tmp_path: Path) -> None:
    restless = CellSpec(latency=Latency(between_us=900))
    baseline = written(tmp_path / "a", restless)
    told = judged(baseline, written(tmp_path / "b", restless, data_seed=2)).sentence
    assert told.startswith("Cannot tell: undisturbed, median of T ")
    assert "; not worse in share of lost cycles" in told

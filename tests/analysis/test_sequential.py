# SPDX-License-Identifier: Apache-2.0
"""Runs that stop once they know: what a look decides, and what it costs the intervals."""

import json
from pathlib import Path
from typing import Any

import pytest
import synthetic
from synthetic import CellSpec, Latency, Spec
from test_analysis_cli import run

from analysis.judging import compare
from analysis.judging.control import calibrate
from analysis.reading.bundle import BundleError, read
from analysis.showing import conditions
from analysis.statistics import per_cell, sequential
from analysis.statistics.quantity import Quantity
from analysis.statistics.sequential import Headline, Rule
from schema.looks import Look, looks

P99 = Quantity("O", "p99")
RULE = Rule(0.10, looks(40))


def planned(document: dict[str, Any], stopped_at: int | None = None, precision_percent: float = 10) -> None:
    """Make it a run with PRECISION and at most 40 repetitions, which a look ended where `stopped_at` says."""
    at = [{"repetitions": look.repetitions, "share": look.share} for look in looks(40)]
    document["plan"] |= {"repetitions": 40, "sequential": {"precision_percent": precision_percent, "looks": at}}
    cells = len(document["plan"]["cells"])
    document["plan"]["order"] = [[cell, number] for number in range(1, 41) for cell in range(cells)]
    if stopped_at:
        document["looks"] = [{"repetitions": stopped_at, "stop": True, "reason": "narrow enough"}]


def written(folder: Path, *cells: CellSpec, repetitions: int, **rule: Any) -> Path:
    spec = Spec(cells=cells or (CellSpec(),), repetitions=repetitions, edit=lambda document: planned(document, **rule))
    return synthetic.write(folder, spec)


def arms(shift_us: float) -> tuple[CellSpec, CellSpec]:
    return CellSpec(arm="usual"), CellSpec(arm="other", latency=Latency(shift_us=shift_us))


def seen(verdict: str | None, half_width: float) -> Headline:
    return Headline("B against A", P99, verdict, half_width)


def test_a_run_stops_when_every_headline_has_a_verdict_or_is_narrow_enough() -> None:
    for headlines, stops in [
        ([seen("faster", 0.5), seen(None, 0.09)], True),
        ([seen("faster", 0.5), seen(None, 0.11)], False),
        ([seen(None, float("inf"))], False),
        ([], False),
    ]:
        assert sequential.decide(headlines, RULE, 10).stop is stops


def test_a_run_ends_with_its_last_look_and_says_that_it_did_not_get_there() -> None:
    decision = sequential.decide([seen(None, 0.3)], RULE, 40)
    assert decision.stop
    assert decision.reason == "REPETITIONS=40 are used up: B against A: p99 of O within ± 30 % (PRECISION=10%)"


def test_each_look_judges_at_its_own_part_of_the_error(tmp_path: Path) -> None:
    for repetitions, look in [(3, 0), (10, 0), (11, 1), (20, 1), (40, 2)]:
        bundle = read(written(tmp_path / str(repetitions), repetitions=repetitions))
        assert sequential.share(bundle) == looks(40)[look].share
        assert sequential.confidence(bundle) == pytest.approx(1 - 0.05 * looks(40)[look].share)


def test_a_run_without_looks_has_the_whole_error_to_spend(bundle: Path) -> None:
    assert sequential.share(read(bundle)) == 1
    assert sequential.notice(read(bundle)) is None


def test_reruns_beyond_the_plan_do_not_count_as_progress(tmp_path: Path) -> None:
    folder = written(tmp_path / "run", repetitions=10)
    document = json.loads((folder / "bundle.json").read_text())
    document["repetitions"][-1] |= {"repetition": 41, "rerun_of": 10}
    (folder / "bundle.json").write_text(json.dumps(document))
    assert sequential.reached(read(folder)) == 9


def test_the_intervals_of_a_run_with_looks_are_wider_and_say_so(tmp_path: Path) -> None:
    fixed = read(synthetic.write(tmp_path / "fixed", Spec(repetitions=10)))
    looked = read(written(tmp_path / "looked", repetitions=10, stopped_at=10))
    narrow, wide = (per_cell.summarise(run)[0].estimates["T"]["p50"] for run in (fixed, looked))
    assert narrow.value_us == wide.value_us
    assert (narrow.low_us or 0) > (wide.low_us or 0)
    assert (narrow.high_us or 0) < (wide.high_us or 0)
    assert "10 of at most 40 (PRECISION=10%, look 1 of 3)" in conditions.notices(looked)[-1]
    assert "each holds at 98.2%, those of all looks together at 95%" in conditions.notices(looked)[-1]


def test_the_differences_of_a_run_with_looks_are_wider_too(tmp_path: Path) -> None:
    fixed = read(synthetic.write(tmp_path / "fixed", Spec(cells=arms(300), repetitions=10)))
    looked = read(written(tmp_path / "looked", *arms(300), repetitions=10, stopped_at=10))
    for narrow, wide in zip(compare.arms(fixed), compare.arms(looked), strict=True):
        assert (narrow.a, narrow.b) == (wide.a, wide.b)
        assert wide.low < narrow.low
        assert narrow.high < wide.high


@pytest.mark.parametrize(("shift_us", "reason"), [(2000, "a verdict stands"), (0, "the same")])
def test_a_look_at_arms_stops_at_a_verdict(tmp_path: Path, shift_us: float, reason: str) -> None:
    folder = written(tmp_path / "run", *arms(shift_us), repetitions=10)
    done = run("look", folder)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["repetitions"] == 10
    if shift_us:
        assert said["stop"]
        assert reason in said["reason"]
    else:
        assert said["stop"] == (said["half_width_percent"] <= 10)


def test_a_look_at_one_cell_stops_when_its_interval_is_narrow_enough(tmp_path: Path) -> None:
    wide = written(tmp_path / "wide", CellSpec(latency=Latency(between_us=1500)), repetitions=10)
    assert not json.loads(run("look", wide).stdout)["stop"]
    narrow = written(tmp_path / "narrow", repetitions=10)
    said = json.loads(run("look", narrow).stdout)
    assert said["stop"]
    assert 0 < said["half_width_percent"] <= 10


def test_a_look_at_a_run_without_precision_is_refused(bundle: Path) -> None:
    done = run("look", bundle)
    assert (done.returncode, "no looks" in done.stderr) == (2, True)


def test_a_run_that_a_look_ended_is_whole_and_one_that_just_ended_is_not(tmp_path: Path) -> None:
    assert run("verify", written(tmp_path / "stopped", repetitions=10, stopped_at=10)).returncode == 0
    done = run("verify", written(tmp_path / "cut", repetitions=10))
    assert done.returncode == 1
    assert "planned repetitions are missing" in done.stdout


@pytest.mark.parametrize(
    "looks_planned",
    [[(20, 0.5), (10, 0.5)], [(10, 0.7), (20, 0.7)], [(10, 0.5), (10, 0.5)]],
)
def test_looks_that_no_plan_can_have_are_refused(tmp_path: Path, looks_planned: list[tuple[int, float]]) -> None:
    folder = written(tmp_path / "run", repetitions=10)
    document = json.loads((folder / "bundle.json").read_text())
    document["plan"]["sequential"]["looks"] = [{"repetitions": n, "share": share} for n, share in looks_planned]
    (folder / "bundle.json").write_text(json.dumps(document))
    with pytest.raises(BundleError, match=r"plan\.sequential"):
        sequential.rule(read(folder))


def test_peeking_raises_no_more_false_alarms_than_it_may() -> None:
    """The essence of the table in docs/statistics.md: 100 A/A runs, of which 5 % may cry wolf."""
    found = calibrate.sequences(calibrate.HOSTS[0], Quantity("T", "p50"), 0, runs=100)
    assert found.alarms <= 0.05
    assert 10 <= found.repetitions <= 40


def test_a_true_difference_ends_a_run_early() -> None:
    found = calibrate.sequences(calibrate.HOSTS[0], Quantity("T", "p50"), 500, runs=20)
    assert found.slower == 1
    assert found.repetitions == 10


def test_a_look_belongs_to_the_next_one_where_a_run_was_cut_off() -> None:
    assert RULE.at(1) == RULE.looks[0] == Look(10, looks(40)[0].share)
    assert RULE.at(21) == RULE.looks[2]

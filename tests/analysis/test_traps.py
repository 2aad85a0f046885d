# SPDX-License-Identifier: Apache-2.0
"""Bundles that once fooled a verdict, or that an honest reader was refused: each ends in a verified answer."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from synthetic import CellSpec, Latency, Spec

from analysis.judging import answer, compare
from analysis.judging.compare import FASTER, MORE, SAME, SLOWER, UNKNOWN, Claim
from analysis.judging.control.board import MOVED, STILL
from analysis.reading import labels
from analysis.reading.bundle import Bundle, read
from analysis.reading.integrity import check
from analysis.reading.selection import select
from analysis.showing import derived
from analysis.showing.verify import verify
from analysis.statistics import losses, per_cell
from analysis.statistics.per_cell import CellSummary
from analysis.statistics.quantity import Quantity

CALM = Latency(between_us=20)
STUDY: dict[str, Any] = {"name": "study-priority"}


def opened(folder: Path) -> Bundle:
    bundle = read(folder)
    check(bundle)
    return bundle


def derive_and_verify(folder: Path) -> tuple[CellSummary, ...]:
    bundle = opened(folder)
    summaries = per_cell.summarise(bundle)
    derived.write(bundle, summaries, folder)
    assert verify(folder).findings == ()
    return summaries


def arms(folder: Path, a: CellSpec, b: CellSpec, **values: Any) -> list[Claim]:
    synthetic.write(folder, Spec(cells=(a, b), **STUDY, **values))
    return list(compare.arms(opened(folder)))


def claim(claims: list[Claim], quantity: str) -> Claim:
    return next(c for c in claims if c.quantity == Quantity.parse(quantity))


def arm(name: str, **values: Any) -> CellSpec:
    return CellSpec(scenario="2", arm=name, contention="cpu", latency=values.pop("latency", CALM), **values)


def test_a_board_that_failed_in_five_of_five_hundred_cycles_is_honest_and_misses_its_deadlines(tmp_path: Path) -> None:
    folder = synthetic.write(tmp_path / "b", Spec(cells=(CellSpec(board_failures=1),), repetitions=5))
    summary = derive_and_verify(folder)[0]
    assert (summary.counts.lost, summary.misses.count) == (5, 5)
    assert summary.distributions["T_intended"].total == 495
    assert summary.outcomes[Quantity("lost", "share_percent")].value == 1


def test_a_side_that_loses_its_slowest_fifth_is_not_faster(tmp_path: Path) -> None:
    claims = arms(tmp_path / "b", arm("all"), arm("fewer", slowest_lost=0.2), repetitions=10)
    assert FASTER not in {c.verdict for c in claims}
    assert claim(claims, "lost").verdict == MORE
    assert claim(claims, "lost").b == pytest.approx(20)
    assert claim(claims, "O.p99").verdict == SLOWER
    assert math.isinf(claim(claims, "O.p99").b)
    assert claim(claims, "T.avg").verdict == UNKNOWN
    assert "B lost more cycles" in claim(claims, "T.avg").why
    derive_and_verify(tmp_path / "b")


def test_nothing_is_faster_across_a_quantile_that_losses_cut(tmp_path: Path) -> None:
    claims = arms(tmp_path / "b", arm("fewer", slowest_lost=0.2), arm("all"), repetitions=10)
    assert claim(claims, "O.p99").verdict == UNKNOWN
    assert "nothing to be faster than" in claim(claims, "O.p99").why
    assert SLOWER not in {c.verdict for c in claims if c.of_answered}


def test_a_side_of_which_half_the_repetitions_are_silent_is_not_faster_and_shows(tmp_path: Path) -> None:
    quick = Latency(between_us=20, shift_us=-300, spread_us=100)
    claims = arms(tmp_path / "b", arm("all"), arm("half", latency=quick, silent=(2, 4, 6, 8, 10)), repetitions=10)
    assert FASTER not in {c.verdict for c in claims}
    assert claim(claims, "lost").b == pytest.approx(50)
    found = losses.of(opened(tmp_path / "b"))[1]
    assert (found.silent, found.lost, found.offered) == (5, 500, 1000)
    assert "5 of 10 repetitions answered nothing" in found.text
    derive_and_verify(tmp_path / "b")


def test_a_side_that_answers_nothing_at_all_is_compared_all_the_same(tmp_path: Path) -> None:
    claims = arms(tmp_path / "b", arm("all"), arm("dead", lost=20), repetitions=6, messages=20)
    assert claim(claims, "lost").verdict == MORE
    assert claim(claims, "T.p50").verdict == SLOWER
    derive_and_verify(tmp_path / "b")


def test_three_against_four_repetitions_are_judged_or_too_few_but_not_both(tmp_path: Path) -> None:
    a = synthetic.write(tmp_path / "a", Spec(repetitions=3))
    b = synthetic.write(tmp_path / "b", Spec(cells=(CellSpec(latency=Latency(shift_us=5000)),), repetitions=4))
    found = compare.compare(select(str(a), read), select(str(b), read))
    verdicts = {c.verdict for c in found.claims if c.metric == "T"}
    assert SLOWER in verdicts
    assert not any("too few for any verdict" in note for note in found.notes)


@pytest.mark.parametrize("seed", range(5))
def test_repetitions_run_again_late_on_a_host_that_drifts_are_no_difference(tmp_path: Path, seed: int) -> None:
    late = arm("again", again=(1, 2, 3, 4))
    claims = arms(tmp_path / "b", arm("all"), late, repetitions=10, drift_us=40, data_seed=seed)
    assert not {c.verdict for c in claims} & {FASTER, SLOWER}
    derive_and_verify(tmp_path / "b")


def test_what_only_ran_later_is_said_to_be_left_out(tmp_path: Path) -> None:
    folder = synthetic.write(
        tmp_path / "b", Spec(cells=(arm("all"), arm("again", again=(1, 2, 3))), repetitions=10, **STUDY)
    )
    bundle = opened(folder)
    notes = answer.of(bundle, per_cell.summarise(bundle)).notes
    assert any("6 repetitions ran beside none of the other arm" in note for note in notes)


def test_a_drift_that_arms_share_does_not_hide_their_difference(tmp_path: Path) -> None:
    slow = arm("slow", latency=Latency(between_us=20, shift_us=250))
    claims = arms(tmp_path / "b", arm("all"), slow, repetitions=10, drift_us=60)
    assert claim(claims, "T.p50").verdict == SLOWER


def test_a_sure_difference_inside_the_margin_does_not_matter_and_says_so(tmp_path: Path) -> None:
    still = Latency(spread_us=0, between_us=0, floor_us=1700, r_us=4300)
    near = Latency(spread_us=0, between_us=0, floor_us=1760, r_us=4300)
    claims = arms(tmp_path / "b", arm("a", latency=still), arm("b", latency=near), repetitions=10)
    told = claim(claims, "T.avg")
    assert told.sure
    assert told.verdict == SAME
    assert told.words == "the same within 5 %"
    assert "slower by" in told.why
    assert "inside the margin of 5 %: does not matter" in told.why


def test_cannot_tell_says_what_could_have_been_found_and_what_would_settle_it(tmp_path: Path) -> None:
    claims = arms(tmp_path / "b", arm("a"), arm("b", latency=Latency(between_us=20, shift_us=30)), repetitions=5)
    told = claim(claims, "O.p99")
    assert told.verdict == UNKNOWN
    assert (told.detectable or 0) > abs(told.difference)
    assert (told.repetitions or 0) > 5


def test_the_compared_values_are_those_of_the_table(tmp_path: Path) -> None:
    claims = arms(tmp_path / "b", arm("a"), arm("b", lost=1), repetitions=5)
    summaries = per_cell.summarise(opened(tmp_path / "b"))
    for told in claims:
        for summary, value in zip(summaries, (told.a, told.b), strict=True):
            shown = summary.interval(told.quantity)
            assert shown is not None
            assert shown.value == pytest.approx(value)


def test_losses_of_repetitions_that_were_set_aside_stay_in_sight(tmp_path: Path) -> None:
    folder = synthetic.write(tmp_path / "b", Spec(cells=(CellSpec(lost=2, again=(1,)),), repetitions=5))
    bundle = opened(folder)
    found = answer.of(bundle, per_cell.summarise(bundle))
    assert (found.losses[0].lost, found.losses[0].set_aside_lost) == (10, 2)
    assert "2 more in repetitions that were set aside" in found.sentence


def test_the_answer_ranks_arms_names_conditions_and_tells_a_board_that_moved(tmp_path: Path) -> None:
    knobs = {"broker": {"tcp": "nodelay", "priority": "fifo:90"}, "control-loop": {"priority": "fifo:90"}}
    tail = Latency(between_us=20, spread_us=1500)
    cells = (
        arm("none", latency=tail),
        arm("worse", latency=Latency(between_us=20, spread_us=1500, r_us=9000)),
        arm("fifo both", knobs=knobs),
    )
    folder = synthetic.write(tmp_path / "b", Spec(cells=cells, repetitions=8, **STUDY))
    bundle = opened(folder)
    found = answer.of(bundle, per_cell.summarise(bundle))
    assert [effect.b for effect in found.effects] == ["stress, fifo on both", "stress, worse"]
    assert found.effects[0].headline.verdict == FASTER
    assert found.sentence.startswith("Fifo on both: faster than no priority in p99 of O")
    moved = [effect.control is not None and effect.control.verdict == MOVED for effect in found.effects]
    assert moved == [False, True]
    assert not found.question.recorded
    derive_and_verify(folder)


def test_a_headline_that_the_plan_records_comes_first(tmp_path: Path) -> None:
    def recorded(document: dict[str, Any]) -> None:
        document["plan"] |= {"question": "How fast?", "headline": ["T.p90", "lost"], "margin_percent": 10}

    folder = synthetic.write(tmp_path / "b", Spec(cells=(arm("a"), arm("b")), repetitions=6, edit=recorded, **STUDY))
    bundle = opened(folder)
    found = answer.of(bundle, per_cell.summarise(bundle))
    assert found.question.recorded
    assert [str(c.quantity) for c in found.effects[0].claims[:2]] == ["T.p90", "lost.share_percent"]
    assert found.effects[0].headline.margin == pytest.approx(0.1 * found.effects[0].headline.a)


def test_arms_that_differ_in_nothing_rarely_alarm(tmp_path: Path) -> None:
    alarms = [
        any(c.sure for c in arms(tmp_path / str(seed), arm("a"), arm("b"), repetitions=5, data_seed=seed))
        for seed in range(20)
    ]
    assert np.mean(alarms) <= 0.15


def test_a_comparison_opens_with_its_answer_and_with_what_it_cost_in_cycles(tmp_path: Path) -> None:
    a = synthetic.write(tmp_path / "a", Spec(repetitions=8))
    b = synthetic.write(tmp_path / "b", Spec(repetitions=8, data_seed=2, cells=(CellSpec(lost=10),)))
    found = compare.compare(select(str(a), opened), select(str(b), opened))
    sentence = answer.of_comparison(found).sentence
    assert sentence.startswith("B: ")
    assert "more of its cycles" in sentence
    assert "B loses [" in sentence
    bounds = [bound for claim in found.claims for bound in (claim.low, claim.high)]
    assert all(math.isinf(bound) or abs(bound) < 1e9 for bound in bounds), "µs"


def told(a: Path, b: Path) -> tuple[compare.Comparison, str]:
    found = compare.compare(select(str(a), opened), select(str(b), opened))
    return found, answer.of_comparison(found).sentence


def test_two_arms_cost_their_own_cycles_and_no_other_arms(tmp_path: Path) -> None:
    cells = (arm("a"), arm("b"), CellSpec(arm="c", lost=20))
    run = synthetic.write(tmp_path / "run", Spec(repetitions=8, cells=cells))
    found = compare.compare(select(f"{run}#a", opened), select(f"{run}#b", opened))
    assert answer.of_comparison(found).sentence.endswith("None of 1,600 cycles was lost.")
    one = compare.compare(select(f"{run}#a", opened), select(f"{run}#c", opened))
    assert "160 of 1,600 cycles were lost" in answer.of_comparison(one).sentence


def test_a_board_whose_slowest_answers_were_lost_was_not_disturbed(tmp_path: Path) -> None:
    restless = Latency(between_us=20, r_us=4300)
    a = synthetic.write(tmp_path / "a", Spec(repetitions=12, cells=(CellSpec(latency=restless),)))
    quicker = Latency(between_us=20, r_us=3000)  # as if only the quick ones had been answered
    b = synthetic.write(tmp_path / "b", Spec(repetitions=12, data_seed=2, cells=(CellSpec(latency=quicker, lost=20),)))
    found, sentence = told(a, b)
    assert "the board was disturbed" not in sentence
    assert all(effect.control.verdict != STILL for effect in answer.of_comparison(found).effects if effect.control)


def test_a_quantile_that_losses_cut_is_told_without_figures_that_it_has_not(tmp_path: Path) -> None:
    a = synthetic.write(tmp_path / "a", Spec(repetitions=8, cells=(arm(""),)))
    b = synthetic.write(tmp_path / "b", Spec(repetitions=8, data_seed=2, cells=(arm("", lost=10),)))
    _, sentence = told(a, b)
    assert ", which losses cut, against " in sentence
    assert "∞" not in sentence


def test_with_more_time_to_the_deadline_fewer_are_missed_by_right(tmp_path: Path) -> None:
    def deadline(document: dict[str, Any]) -> None:
        document["plan"]["deadline_ms"] = 500

    slow = CellSpec(latency=Latency(between_us=20, shift_us=16_000))
    a = synthetic.write(tmp_path / "a", Spec(repetitions=8, cells=(slow,)))
    b = synthetic.write(tmp_path / "b", Spec(repetitions=8, cells=(slow,), data_seed=2, edit=deadline))
    found, _ = told(a, b)
    missed = [claim for claim in found.claims if claim.metric == "missed"]
    assert {(claim.verdict, claim.why) for claim in missed} == {(compare.UNKNOWN, "A's deadline is 20 ms, B's 500 ms")}
    assert "deadline in ms: 20 → 500" in found.differences


def test_cells_without_a_partner_are_said_to_be_left_out(tmp_path: Path) -> None:
    a = synthetic.write(tmp_path / "a", Spec(repetitions=8, cells=(CellSpec(interval_ms=20), CellSpec(interval_ms=50))))
    b = synthetic.write(tmp_path / "b", Spec(repetitions=8, data_seed=2))
    found, _ = told(a, b)
    assert "B has nothing to compare with scenario 1, 50 ms, QoS 0: left out" in found.notes


def test_a_run_that_answers_nothing_has_lost_its_median_too(tmp_path: Path) -> None:
    silent = opened(synthetic.write(tmp_path / "a", Spec(repetitions=3, cells=(CellSpec(lost=100),))))
    found = answer.of(silent, per_cell.summarise(silent))
    assert {level.interval.value for level in found.levels if level.interval} == {math.inf}
    assert "not supported" not in found.sentence
    assert "3 repetitions answered nothing" in found.sentence


def test_one_repetition_is_one(tmp_path: Path) -> None:
    one = opened(synthetic.write(tmp_path / "a", Spec(repetitions=1, cells=(CellSpec(lost=100),))))
    assert "1 repetition answered nothing" in answer.of(one, per_cell.summarise(one)).sentence


def test_shares_are_more_or_fewer_and_never_faster(tmp_path: Path) -> None:
    def headline(document: dict[str, Any]) -> None:
        document["plan"]["headline"] = ["missed.share_percent"]

    a = synthetic.write(tmp_path / "a", Spec(repetitions=10, edit=headline))
    b = synthetic.write(tmp_path / "b", Spec(repetitions=10, data_seed=2, cells=(CellSpec(lost=20),)))
    assert told(a, b)[1].startswith("B: more missed deadlines than A, 20.0 % against ")


def test_what_a_study_says_beside_its_answer_stands_beside_it(tmp_path: Path) -> None:
    def note(document: dict[str, Any]) -> None:
        document["plan"]["note"] = "the images are other builds"

    run = opened(synthetic.write(tmp_path / "a", Spec(repetitions=3, edit=note)))
    assert answer.of(run, per_cell.summarise(run)).notes[0] == "the images are other builds"


def test_what_protects_the_connections_is_told_once_and_not_by_service(tmp_path: Path) -> None:
    protected = {
        kind: {service: {"tcp": "nodelay", "security": kind} for service in ("broker", "control-loop", "pi")}
        for kind in ("password", "tls")
    }
    cells = (CellSpec(arm="none"), *(CellSpec(arm=kind, knobs=knobs) for kind, knobs in protected.items()))
    found = read(synthetic.write(tmp_path / "b", Spec(cells=cells, repetitions=2, proofs=False)))
    assert list(labels.of_cells(found.cells).values()) == ["no protection", "a password", "TLS"]

# SPDX-License-Identifier: Apache-2.0
"""Verdicts on known truth: no false alarm beyond what is promised, and true shifts found."""

import numpy as np
import pytest

from analysis.judging import inference
from analysis.judging.control import calibrate
from analysis.judging.control.calibrate import HOSTS, Noise
from analysis.judging.inference import Sides

QUIET, ASTRAY, CONTENDED = HOSTS


def sides(a: np.ndarray, b: np.ndarray, families: tuple[int, ...] | None = None, *, paired: bool = False) -> Sides:
    columns = a.shape[1]
    return Sides(a, b, np.ones(columns), np.array(families or (0,) * columns), paired)


@pytest.mark.parametrize("noise", HOSTS, ids=lambda noise: noise.name)
def test_at_most_five_of_a_hundred_comparisons_without_a_difference_alarm(noise: Noise) -> None:
    assert calibrate.false_alarms(noise, (5, 5), cells=1, splits=100) <= 0.05
    assert calibrate.false_alarms(noise, (3, 4), cells=1, splits=100) <= 0.05


def test_planted_shifts_are_found() -> None:
    assert calibrate.power(QUIET, 5, 500, splits=20)["T.p50"] >= 0.9
    assert calibrate.power(QUIET, 10, 1000, splits=20)["O.p99"] >= 0.8
    assert calibrate.power(ASTRAY, 10, 500, splits=20)["T.p50"] >= 0.9


def test_intervals_across_repetitions_hold_the_truth_about_as_often_as_they_say() -> None:
    assert calibrate.coverage(QUIET, 5, runs=100).min() >= 0.88
    assert calibrate.coverage(CONTENDED, 10, runs=100).min() >= 0.88


def test_p_is_exact_where_every_relabelling_is_tried() -> None:
    a, b = np.array([[1.0], [2.0], [3.0], [4.0]]) * 1000, np.array([[5.0], [6.0], [7.0], [8.0]]) * 1000
    assert inference.judge([sides(a, b)], (1,))[0][0].p == pytest.approx(2 / 70)


def test_within_blocks_p_counts_the_swaps() -> None:
    a = np.arange(8.0)[:, None] * 1000
    result = inference.judge([sides(a, a + 100 + np.arange(8.0)[:, None], paired=True)], (1,))[0][0]
    assert result.p == pytest.approx(2 / 2**8)
    assert result.sure


def test_what_drifts_from_block_to_block_is_told_apart_from_a_difference() -> None:
    a = np.linspace(0, 10_000, 10)[:, None] + np.random.default_rng(1).normal(0, 20, (10, 1))
    b = a + 100 + np.random.default_rng(2).normal(0, 20, (10, 1))
    assert inference.blocks_differ(a, b)
    assert not inference.judge([sides(a, b)], (1,))[0][0].sure
    assert inference.judge([sides(a, b, paired=True)], (1,))[0][0].sure


def test_swapping_sides_mirrors_the_result() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(5000, 100, (5, 3)), rng.normal(5200, 100, (5, 3))
    there, back = inference.judge([sides(a, b)], (1,))[0], inference.judge([sides(b, a)], (1,))[0]
    assert [x.t for x in there] == pytest.approx([-x.t for x in back])
    assert [x.p for x in there] == pytest.approx([x.p for x in back])


def test_identical_repetitions_are_no_difference_and_no_division_by_zero() -> None:
    same = np.full((5, 2), 5000.0)
    assert all(x.p == 1 and not x.sure for x in inference.judge([sides(same, same)], (1,))[0])


def test_three_repetitions_a_side_are_too_few_for_any_verdict_and_three_against_four_are_not() -> None:
    a, b = np.array([[1.0], [2.0], [3.0]]) * 1e3, np.array([[100.0], [101.0], [102.0], [103.0]]) * 1e3
    three, four = sides(a, b[:3]), sides(a, b)
    assert inference.rarest([three]) > inference.PROMISED
    assert not inference.judge([three], (1,))[0][0].sure
    assert inference.rarest([four]) <= inference.PROMISED
    assert inference.judge([four], (1,))[0][0].sure


def test_the_headline_does_not_pay_for_the_others() -> None:
    """The same difference is found as a headline, and lost among many others that differ in nothing."""
    rng = np.random.default_rng(8)
    a, b = rng.normal(0, 100, (6, 40)), rng.normal(0, 100, (6, 40))
    a[:, 0] = np.arange(6) * 50
    b[:, 0] = a[:, 0] + 200
    others = (1,) * 39
    assert inference.judge([sides(a, b, (0, *others))], (1,))[0][0].sure
    assert not inference.judge([sides(a, b, (1, *others))], (1,))[0][0].sure


def test_a_later_headline_has_the_full_level_only_if_the_one_before_it_was_decided() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(0, 100, (5, 2)), rng.normal(0, 100, (5, 2))
    b[:, 1] += 260
    after_nothing = inference.judge([sides(a, b, (0, 1))], (1,))[0]
    b[:, 0] += 2000
    after_a_verdict = inference.judge([sides(a, b, (0, 1))], (1,))[0]
    assert after_a_verdict[0].sure
    assert after_a_verdict[1].critical < after_nothing[1].critical


def test_a_noisy_arm_does_not_hide_what_a_steady_one_shows() -> None:
    rng = np.random.default_rng(5)
    steady = sides(rng.normal(0, 1, (10, 1)) * 1e3, rng.normal(2.2, 1, (10, 1)) * 1e3)
    wild = [sides(rng.standard_cauchy((10, 1)) * 1e5, rng.standard_cauchy((10, 1)) * 1e5) for _ in range(5)]
    assert inference.judge([steady, *wild], (1,))[0][0].sure


def test_cliffs_delta_tells_how_often_b_is_beyond_a() -> None:
    assert inference.cliffs_delta(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 1
    assert inference.cliffs_delta(np.array([3.0, 4.0]), np.array([1.0, 2.0])) == -1
    assert inference.cliffs_delta(np.array([1.0, 2.0]), np.array([1.0, 2.0])) == 0

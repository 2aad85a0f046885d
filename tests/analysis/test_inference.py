# SPDX-License-Identifier: Apache-2.0
"""Verdicts on known truth: no false alarm beyond what is promised, and true shifts found."""

import itertools

import numpy as np
import pytest

from analysis import calibrate, inference
from analysis.calibrate import HOSTS
from analysis.inference import Sides

QUIET, ASTRAY, CONTENDED = HOSTS


@pytest.mark.parametrize("noise", HOSTS, ids=lambda noise: noise.name)
def test_at_most_five_of_a_hundred_comparisons_without_a_difference_alarm(noise):
    assert calibrate.false_alarms(noise, repetitions=5, cells=1, splits=200) <= 0.05
    assert calibrate.false_alarms(noise, repetitions=10, cells=4, splits=100) <= 0.05


def test_planted_shifts_are_found():
    assert calibrate.power(QUIET, 5, 200, splits=50)[1] >= 0.9
    assert calibrate.power(QUIET, 10, 500, splits=50)[:3].min() >= 0.95
    assert calibrate.power(ASTRAY, 10, 500, splits=50)[1] >= 0.95
    assert calibrate.power(CONTENDED, 10, 1000, splits=50)[1] >= 0.8


def test_intervals_across_repetitions_hold_the_truth_about_as_often_as_they_say():
    assert calibrate.coverage(QUIET, 5, runs=100).min() >= 0.88
    assert calibrate.coverage(CONTENDED, 10, runs=100).min() >= 0.88


def test_a_verdict_and_its_interval_agree():
    rng = np.random.default_rng(3)
    for shift, size in itertools.product((0, 100, 250, 5000), (4, 5, 9)):
        pairs = [Sides(rng.normal(5000, 100, (size, 6)), rng.normal(5000 + shift, 100, (size, 6))) for _ in range(2)]
        for found in inference.differences(pairs, (1,)):
            assert np.array_equal((found.low_us > 0) | (found.high_us < 0), found.p <= inference.level(pairs))


def test_p_is_exact_where_every_relabelling_is_tried():
    a, b = np.array([[1.0], [2.0], [3.0], [4.0]]) * 1000, np.array([[5.0], [6.0], [7.0], [8.0]]) * 1000
    assert inference.differences([Sides(a, b)], (1,))[0].p[0] == pytest.approx(2 / 70)


def test_swapping_sides_mirrors_the_result():
    rng = np.random.default_rng(4)
    a, b = rng.normal(5000, 100, (5, 3)), rng.normal(5200, 100, (5, 3))
    there, back = inference.differences([Sides(a, b)], (1,))[0], inference.differences([Sides(b, a)], (1,))[0]
    assert np.allclose(there.low_us, -back.high_us)
    assert np.allclose(there.p, back.p)


def test_identical_repetitions_are_no_difference_and_no_division_by_zero():
    same = np.full((5, 2), 5000.0)
    found = inference.differences([Sides(same, same)], (1,))[0]
    assert np.all(found.p == 1)
    assert np.all(np.isfinite([found.low_us, found.high_us]))


def test_three_repetitions_a_side_are_too_few_for_any_verdict():
    pair = Sides(np.array([[1.0], [2.0], [3.0]]), np.array([[100.0], [101.0], [102.0]]))
    assert inference.rarest([pair]) > inference.PROMISED
    found = inference.differences([pair], (1,))[0]
    assert found.low_us[0] < 0 < found.high_us[0]


def test_cliffs_delta_tells_how_often_b_is_beyond_a():
    assert inference.cliffs_delta(np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 1
    assert inference.cliffs_delta(np.array([3.0, 4.0]), np.array([1.0, 2.0])) == -1
    assert inference.cliffs_delta(np.array([1.0, 2.0]), np.array([1.0, 2.0])) == 0

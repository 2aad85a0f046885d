# SPDX-License-Identifier: Apache-2.0
"""Counts of distinct values give what the samples themselves would."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.statistics import bootstrap, per_cell
from analysis.statistics.distribution import Distribution

Samples = list[list[int]]

REPETITIONS = st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=30), min_size=1, max_size=6)


def distribution_of(samples: list[list[int]]) -> Distribution:
    values = np.unique(np.concatenate([np.array(own) for own in samples]))
    counts = np.array([[own.count(value) for value in values.tolist()] for own in samples], dtype=np.int64)
    lost = np.zeros(len(samples), dtype=np.int64)
    return Distribution(values, counts, np.arange(1, len(samples) + 1), lost)


@given(REPETITIONS, st.floats(0, 1), st.data())
def test_a_quantile_of_weighted_repetitions_is_numpys_of_the_repeated_samples(
    samples: Samples, q: float, data: st.DataObject
) -> None:
    weights = data.draw(st.lists(st.integers(0, 3), min_size=len(samples), max_size=len(samples)).filter(any))
    repeated = np.concatenate([np.repeat(own, weight) for own, weight in zip(samples, weights, strict=True)])
    ours = distribution_of(samples).quantiles(np.array([weights]), q)
    assert np.isclose(ours[0], np.quantile(repeated, q))


@given(REPETITIONS, st.lists(st.integers(0, 9), min_size=6, max_size=6), st.floats(0, 1))
def test_a_lost_cycle_ranks_behind_every_latency(samples: Samples, lost: list[int], q: float) -> None:
    distribution = replace(distribution_of(samples), lost=np.array(lost[: len(samples)]))
    infinite = [
        *np.concatenate([np.array(own, dtype=float) for own in samples]),
        *[np.inf] * int(distribution.lost.sum()),
    ]
    position = (len(infinite) - 1) * q
    low, high = (sorted(infinite)[rank] for rank in (int(position), min(int(position) + 1, len(infinite) - 1)))
    expected = low if position == int(position) or low == high else low + (high - low) * (position - int(position))
    everything = np.ones((1, len(samples)), dtype=np.int64)
    assert distribution.pooled_quantile(q) == pytest.approx(expected)
    assert distribution.quantiles(everything, q)[0] == pytest.approx(expected)


@given(REPETITIONS)
def test_the_mean_is_that_of_the_samples(samples: Samples) -> None:
    ours = distribution_of(samples).means(np.ones((1, len(samples)), dtype=np.int64))
    assert np.isclose(ours[0], np.mean(np.concatenate(samples)))


@given(REPETITIONS)
def test_the_share_at_or_below_rises_to_one(samples: Samples) -> None:
    distribution = distribution_of(samples)
    assert np.all(np.diff(distribution.pooled) > 0)
    assert distribution.pooled[-1] == distribution.total == sum(map(len, samples))


@given(REPETITIONS)
def test_estimates_are_in_order_and_inside_the_range(samples: Samples) -> None:
    estimates = per_cell.estimate(distribution_of(samples), (1, 0))
    low, high = estimates["min"].value_us, estimates["max"].value_us
    percentiles = [estimates[name].value_us for name in per_cell.PERCENTILES if name in estimates]
    assert percentiles == sorted(percentiles)
    assert all(low <= value <= high for value in [*percentiles, estimates["avg"].value_us])


@given(REPETITIONS.filter(lambda samples: len(samples) >= bootstrap.MINIMUM_REPETITIONS))
def test_an_interval_holds_its_estimate_and_no_negative_latency(samples: Samples) -> None:
    estimates = per_cell.estimate(distribution_of(samples), (1, 0))
    for estimate in (estimates["avg"], *(estimates[name] for name in per_cell.PERCENTILES if name in estimates)):
        assert estimate.low_us is not None
        assert estimate.high_us is not None
        assert 0 <= estimate.low_us <= estimate.value_us * (1 + 1e-9)
        assert estimate.high_us >= estimate.value_us * (1 - 1e-9)


def test_two_repetitions_have_no_interval() -> None:
    assert per_cell.estimate(distribution_of([[1, 2, 3], [2, 3, 4]]), (1, 0))["avg"].low_us is None


def test_a_resample_draws_as_many_repetitions_as_there_are_and_the_same_ones_again() -> None:
    weights = bootstrap.resample(7, (1, 2))
    assert weights.shape == (bootstrap.RESAMPLES, 7)
    assert set(weights.sum(axis=1).tolist()) == {7}
    assert np.array_equal(weights, bootstrap.resample(7, (1, 2)))
    assert not np.array_equal(weights, bootstrap.resample(7, (1, 3)))


def test_percentiles_need_as_many_samples_as_wilks_says() -> None:
    assert [per_cell.supported(0.99, n) for n in (298, 299)] == [False, True]
    assert [per_cell.supported(0.999, n) for n in (2994, 2995)] == [False, True]

# SPDX-License-Identifier: Apache-2.0
"""The formulas beneath every interval and verdict, against the textbook's, to the last digit that they promise."""

import math
from dataclasses import replace
from statistics import variance
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from analysis.judging import checks, conclusion, gate, inference
from analysis.judging.conclusion import FASTER, FEWER, LOST, MORE, SAME, SLOWER, UNKNOWN, Claim
from analysis.judging.inference import Sides
from analysis.judging.measures import Limits, Measure
from analysis.reading.family import Family, Metric
from analysis.statistics import bootstrap, cycles, medians, shares
from analysis.statistics.cycles import MISSING, Cycles
from analysis.statistics.quantity import Quantity

P99, P50, AVG = Quantity("O", "p99"), Quantity("T", "p50"), Quantity("T", "avg")


@pytest.mark.parametrize("repetitions", [3, 5, 10])
@pytest.mark.parametrize("confidence", [0.9, 0.95, 0.99])
def test_the_interval_of_a_mean_is_students(repetitions: int, confidence: float) -> None:
    levels = np.random.default_rng(1).normal(5000, 100, repetitions)
    replicates = bootstrap.resample(repetitions, (1, 0)) @ levels / repetitions
    low, high = bootstrap.interval(levels.mean(), replicates, repetitions, confidence)
    expected = stats.t.interval(confidence, repetitions - 1, levels.mean(), stats.sem(levels))
    # 2000 replicates know their standard deviation to about 1.6 %.
    assert high - low == pytest.approx(expected[1] - expected[0], rel=0.05)
    assert (low + high) / 2 == pytest.approx(levels.mean())


@pytest.mark.parametrize("repetitions", [3, 5, 10])
def test_the_interval_of_a_latency_is_students_on_its_logarithm(repetitions: int) -> None:
    levels = np.exp(np.random.default_rng(2).normal(8, 0.5, repetitions))
    replicates = np.exp(bootstrap.resample(repetitions, (1, 0)) @ np.log(levels) / repetitions)
    middle = np.exp(np.log(levels).mean())
    low, high = bootstrap.positive_interval(middle, replicates, repetitions)
    expected = stats.t.interval(0.95, repetitions - 1, np.log(levels).mean(), stats.sem(np.log(levels)))
    assert np.log(high / low) == pytest.approx(expected[1] - expected[0], rel=0.05)
    assert math.sqrt(low * high) == pytest.approx(middle)


def test_the_intervals_of_several_statistics_are_each_their_own() -> None:
    levels = np.random.default_rng(3).normal((5000, 90_000), (100, 900), (5, 2))
    replicates = bootstrap.resample(5, (1, 0)) @ levels / 5
    for of in (bootstrap.interval, bootstrap.positive_interval):
        low, high = of(levels.mean(axis=0), replicates, 5, 0.9)
        for column in (0, 1):
            alone = of(levels[:, column].mean(), replicates[:, column], 5, 0.9)
            assert (low[column], high[column]) == pytest.approx(alone)


def students_factor(repetitions: int, confidence: float) -> float:
    return float(stats.t.ppf((1 + confidence) / 2, repetitions - 1)) * math.sqrt(repetitions / (repetitions - 1))


@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_a_latency_that_losses_cut_in_some_replicates_has_no_upper_limit(confidence: float) -> None:
    """2000 replicates, 900 to 1898 µs and then none: a normal one's standard deviation lies at the 318th."""
    replicates = np.array([[900.0 + number] for number in range(999)] + [[np.inf]] * 1001)
    low, high = bootstrap.positive_interval(np.array([1500.0]), replicates, 5, confidence)
    below = np.sort(replicates[:, 0])[int(1999 * stats.norm.cdf(-1))]
    assert low == pytest.approx(1500 / (1500 / below) ** students_factor(5, confidence))
    assert high.tolist() == [math.inf]


def test_a_latency_of_nothing_in_some_replicates_has_no_logarithm_and_ends_at_0() -> None:
    replicates = np.array([[0.0], [10.0], [20.0], [30.0]])
    low, high = bootstrap.positive_interval(np.array([15.0]), replicates, 4, 0.9)
    assert low.item() == 0
    assert high.item() == pytest.approx(15 + students_factor(4, 0.9) * np.std(replicates))
    replicates += 1000
    replicates[0] = -1
    low, _ = bootstrap.positive_interval(np.array([2000.0]), replicates, 4, 0.9)
    assert low.item() == pytest.approx(2000 - students_factor(4, 0.9) * np.std(replicates))


def test_each_of_a_resample_is_as_many_repetitions_as_there_are() -> None:
    weights = bootstrap.resample(7, (1, 0))
    assert weights.shape == (bootstrap.RESAMPLES, 7)
    assert set(weights.sum(axis=1)) == {7}
    assert weights.mean(axis=0) == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(("of_a", "of_b"), [(5, 5), (4, 7)])
def test_two_cells_are_tested_by_welchs_t(of_a: int, of_b: int) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.normal(5000, 40, (of_a, 1)), rng.normal(5100, 200, (of_b, 1))
    (result,) = inference.judge([Sides(a, b, np.zeros(1), np.zeros(1, dtype=np.int64))], (1,))[0]
    assert result.t == pytest.approx(stats.ttest_ind(b[:, 0], a[:, 0], equal_var=False).statistic)


def test_blocks_are_tested_by_students_t_of_their_differences() -> None:
    rng = np.random.default_rng(4)
    a = rng.normal(5000, 400, (8, 1))
    b = a + rng.normal(100, 50, (8, 1))
    (result,) = inference.judge([Sides(a, b, np.zeros(1), np.zeros(1, dtype=np.int64), paired=True)], (1,))[0]
    assert result.t == pytest.approx(stats.ttest_rel(b[:, 0], a[:, 0]).statistic)


def test_a_score_that_was_rounded_carries_the_variance_of_rounding() -> None:
    a, b = np.array([[1.0], [1.0], [1.0], [1.0]]), np.array([[2.0], [2.0], [2.0], [2.0]])
    (result,) = inference.judge([Sides(a, b, np.ones(1), np.zeros(1, dtype=np.int64))], (1,))[0]
    assert result.t == pytest.approx(1 / math.sqrt(2 * (1 / 12) / 4))


def test_cycles_of_repetitions_that_differ_are_worth_fewer_independent_ones() -> None:
    events, offered = np.array([2, 9, 4, 13, 6]), np.full(5, 400)
    share = events.sum() / offered.sum()
    of_mean = variance((events / 400).tolist()) / 5
    expected = share * (1 - share) / of_mean * (stats.t.ppf(0.975, 1999) / stats.t.ppf(0.975, 4)) ** 2
    assert shares.effective_size(events, offered, 0.95) == pytest.approx(expected)


def test_a_share_has_clopper_and_pearsons_limits() -> None:
    events, offered = np.array([2, 9, 4, 13, 6]), np.full(5, 400)
    n = shares.effective_size(events, offered, 0.95)
    x = events.sum() / offered.sum() * n
    assert shares.interval(events, offered, 0.95) == pytest.approx(
        (stats.beta.ppf(0.025, x, n - x + 1), stats.beta.ppf(0.975, x + 1, n - x))
    )
    assert shares.interval(np.zeros(5, dtype=np.int64), offered, 0.95)[0] == 0
    assert shares.interval(offered, offered, 0.95)[1] == 1


def test_no_share_is_known_better_than_by_as_many_cycles_as_there_were() -> None:
    alike, offered = np.array([4, 4, 4, 4, 4]), np.full(5, 400)
    few_degrees = (stats.t.ppf(0.975, 1999) / stats.t.ppf(0.975, 4)) ** 2
    assert shares.effective_size(alike, offered, 0.95) == pytest.approx(2000 * few_degrees)


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=30))
def test_a_median_is_pythons(values: list[float]) -> None:
    assert medians.of(np.array(values)) == pytest.approx(float(np.median(values)))


@pytest.mark.parametrize(("count", "k"), [(5, None), (6, 1), (8, 1), (9, 2), (20, 6), (30, 10)])
def test_the_limits_of_a_median_are_the_order_statistics_of_the_tables(count: int, k: int | None) -> None:
    values = np.arange(1.0, count + 1)
    assert medians.limits(values, 0.95) == (None if k is None else (k, count + 1 - k))


def measure(quantity: Quantity, a: float, b: float, a_by: Limits, b_by: Limits) -> Measure:
    none = np.zeros(0)
    return Measure(quantity, a, b, none, none, 1.0, a_by, b_by)


def around(value: float, error: float) -> Limits:
    return lambda critical: (value - critical * error, value + critical * error)


def test_the_interval_of_a_difference_is_by_the_two_sides_own() -> None:
    """Newcombe's square-and-add; where both sides are symmetric it is that of two independent means."""
    made = measure(LOST, 2.0, 5.0, around(2.0, 0.3), around(5.0, 0.4))
    assert made.interval(2.0) == pytest.approx((3 - 2 * 0.5, 3 + 2 * 0.5))
    skewed = measure(LOST, 2.0, 5.0, lambda _: (1.7, 6.0), lambda _: (4.6, 8.0))
    assert skewed.interval(2.0) == pytest.approx((3 - math.hypot(0.4, 4.0), 3 + math.hypot(3.0, 0.3)))


def test_the_interval_of_a_latency_is_that_of_the_ratio_and_never_below_all_of_a() -> None:
    made = measure(P99, 1000.0, 2000.0, lambda _: (500.0, 2000.0), lambda _: (1000.0, 4000.0))
    reach = math.hypot(math.log(2), math.log(2))
    assert made.interval(2.0) == pytest.approx((1000 * (2 * math.exp(-reach) - 1), 1000 * (2 * math.exp(reach) - 1)))
    wild = measure(P99, 1000.0, 10.0, lambda _: (1.0, 1e6), lambda _: (0.1, 1e4)).interval(2.0)
    assert wild[0] > -1000


def test_where_losses_cut_a_side_its_interval_is_open() -> None:
    cut = measure(P99, 1000.0, math.inf, around(1000.0, 50.0), lambda _: (3000.0, math.inf))
    assert cut.interval(2.0) == (3000 - 1100, math.inf)
    both = measure(P99, math.inf, math.inf, lambda _: (3000.0, math.inf), lambda _: (3000.0, math.inf))
    assert both.interval(2.0) == (-math.inf, math.inf)
    assert measure(P99, 1.0, 2.0, around(1, 1), around(2, 1)).interval(math.inf) == (-math.inf, math.inf)
    # Cut by losses at the estimate, not at the limit: whatever B is, it is no faster than its lower limit says.
    of_a = measure(P99, math.inf, 1000.0, lambda _: (3000.0, math.inf), around(1000.0, 50.0))
    assert of_a.interval(2.0) == (-math.inf, 1100 - 3000)


@pytest.mark.parametrize(("low_a", "low_b"), [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (1.0, -1.0)])
def test_a_latency_that_may_be_nothing_has_no_ratio(low_a: float, low_b: float) -> None:
    made = measure(P99, 3.0, 5.0, lambda _: (low_a, 6.0), lambda _: (low_b, 9.0))
    assert made.interval(2.0) == pytest.approx((2 - math.hypot(5 - low_b, 3), 2 + math.hypot(4, 3 - low_a)))


def test_a_ratio_beyond_all_reason_is_no_upper_limit() -> None:
    made = measure(P99, 1.0, 1.0, lambda _: (1e-300, 1e300), lambda _: (1e-300, 1e300))
    assert made.interval(2.0)[1] == math.inf


FAMILY = Family("control", (), (Metric("T", "t_us", "from request to answer"),))


def of(*latencies_us: list[int | None], intended_us: int = 0) -> Cycles:
    """Cycles of repetitions with these latencies, none where a cycle was lost."""
    repetition = np.concatenate([np.full(len(each), 1 + number) for number, each in enumerate(latencies_us)])
    values = np.array([MISSING if us is None else us for each in latencies_us for us in each], dtype=np.int64)
    intended = np.where(values == MISSING, MISSING, values + intended_us)
    return Cycles(FAMILY, repetition, values, {"T": values, "T_intended": intended}, {})


def test_a_deadline_is_missed_after_it_not_at_it_and_counts_from_when_the_cycle_was_due() -> None:
    assert of([19_999, 20_000, 20_001, None]).outcomes(20).missed.tolist() == [2]
    assert of([19_999, 20_000, 20_001, None], intended_us=1).outcomes(20).missed.tolist() == [3]


def test_jitter_is_of_neighbours_in_one_repetition_that_were_both_answered() -> None:
    sums, numbers = of([100, 150, None, 90, 95], [1000, 998]).variation("T")
    assert (sums.tolist(), numbers.tolist()) == ([50 + 5, 2], [2, 1])


def test_a_burst_does_not_reach_from_one_repetition_into_the_next() -> None:
    outcomes = of([1, None, None], [None, None, None, 1], [1, 1]).outcomes(20)
    assert outcomes.lost_burst.tolist() == [2, 3, 0]
    assert (outcomes.offered.tolist(), outcomes.lost.tolist()) == ([3, 4, 2], [2, 3, 0])
    assert of([None, None, 1]).outcomes(20).lost_burst.tolist() == [2]
    assert outcomes.misses(20) == cycles.Misses(20, 5, 3)


def test_a_ramp_is_how_much_the_second_half_exceeds_the_first_of_what_was_answered() -> None:
    assert of([100, 300, 400, 200, 600]).ramps("T").tolist() == [1.0]
    assert of([100, 300, 500, 300], [400, 200]).ramps("T").tolist() == [1.0, -0.5]
    assert of([100, None, None, 150], [None, 100, None, 110]).ramps("T").tolist() == pytest.approx([0.5, 0.1])


def test_a_repetition_without_an_answer_in_a_half_has_no_ramp() -> None:
    assert of([None, None, 100, 200], [100, 120]).ramps("T").tolist() == pytest.approx([0.2])
    assert of([0, 0, 100, 200], [100, 120]).ramps("T").tolist() == pytest.approx([0.2])
    assert of([1], [100, 120]).ramps("T").tolist() == [], "one of a single cycle has no halves"


def test_of_no_cycles_there_is_nothing_to_count() -> None:
    none = of([])
    sums, numbers = none.variation("T")
    assert (sums.tolist(), numbers.tolist()) == ([], [])
    outcomes = none.outcomes(20)
    for counted in (outcomes.offered, outcomes.lost, outcomes.missed, outcomes.lost_burst, outcomes.missed_burst):
        assert counted.tolist() == []
    assert outcomes.misses(20) == cycles.Misses(20, 0, 0)
    assert of([None]).variation("T")[1].tolist() == []
    assert none.ramps("T").tolist() == []


def claim(quantity: Quantity, a: float, b: float, low: float, high: float, **changes: Any) -> Claim:
    """A claim as the test left it, sure where its interval is on one side of 0, with a margin of 5 % or one point."""
    fields: dict[str, Any] = {
        "cells": ("a", "b"), "quantity": quantity, "a": a, "b": b, "low": low, "high": high, "p": 0.01,
        "sure": low > 0 or high < 0, "cliffs_delta": 0.0, "margin": 0.05 * a if quantity.is_time else 1.0,
        "verdict": UNKNOWN, "of_answered": quantity.of_answered,
    }  # fmt: skip
    return Claim(**fields | changes)


@pytest.mark.parametrize(
    ("low", "high", "verdict", "why"),
    [
        (60, 200, SLOWER, ""), (-200, -60, FASTER, ""),
        (40, 200, SLOWER, "margin"), (-200, -40, FASTER, "margin"),
        (-50, 50, SAME, ""), (-51, 50, UNKNOWN, ""), (-50, 51, UNKNOWN, ""),
        (1, 50, SAME, "does not matter"), (-50, -1, SAME, "does not matter"),
        (-200, 40, UNKNOWN, ""), (-40, 200, UNKNOWN, ""),
    ],
)  # fmt: skip
def test_what_an_interval_allows_to_say_of_1000_us_with_a_margin_of_50(
    low: float, high: float, verdict: str, why: str
) -> None:
    concluded = conclusion._concluded(claim(P99, 1000, 1000 + (low + high) / 2, low, high))
    assert concluded.verdict == verdict
    assert why in concluded.why
    assert bool(concluded.why) == bool(why)


def test_of_shares_it_says_more_or_fewer() -> None:
    assert conclusion._concluded(claim(LOST, 1, 5, 2, 6)).verdict == MORE
    assert conclusion._concluded(claim(LOST, 5, 1, -6, -2)).verdict == FEWER
    assert conclusion._concluded(claim(LOST, 1, 1.5, -0.5, 1)).verdict == SAME


def test_a_sure_difference_inside_the_margin_says_how_large_it_is() -> None:
    assert conclusion._concluded(claim(P99, 1000, 1020, 1, 40)).why == (
        "slower by 2.00 %, inside the margin of 5 %: does not matter"
    )
    assert conclusion._concluded(claim(LOST, 1, 1.5, 0.1, 0.9)).why == (
        "more by 0.500 points, inside the margin of 1.00 points: does not matter"
    )


LOSES_MORE = claim(LOST, 1, 4, 2, 4)
MAYBE_MORE = claim(LOST, 1, 3, -1, 5)
HARDLY_MORE = claim(LOST, 1, 1.5, -1, 2)


@pytest.mark.parametrize(
    ("losses", "who"), [(LOSES_MORE, "B"), (MAYBE_MORE, "B"), (HARDLY_MORE, ""), (None, ""),
                        (claim(LOST, 4, 1, -4, -2), "A"), (claim(LOST, 1, 1.5, 0.1, 0.9), "B")],
)  # fmt: skip
def test_who_loses_more_for_sure_or_by_more_than_the_margin(losses: Claim | None, who: str) -> None:
    assert conclusion.loses_more(losses) == who


@pytest.mark.parametrize(
    ("made", "losses", "verdict"),
    [
        (claim(P99, 1000, 500, -600, -400, verdict=FASTER), LOSES_MORE, UNKNOWN),
        (claim(P99, 1000, 500, -600, -400, verdict=FASTER), HARDLY_MORE, FASTER),
        (claim(P99, 1000, 1500, 400, 600, verdict=SLOWER), LOSES_MORE, SLOWER),
        (claim(P99, 1000, 1500, 400, 600, verdict=SLOWER), claim(LOST, 4, 1, -4, -2), UNKNOWN),
        (claim(P99, 1000, 1000, -10, 10, verdict=SAME), LOSES_MORE, SAME),
        (claim(AVG, 1000, 1000, -10, 10, verdict=SAME), LOSES_MORE, UNKNOWN),
        (claim(P99, math.inf, 500, -math.inf, 0, verdict=FASTER), None, UNKNOWN),
        (claim(LOST, 1, 4, 2, 4, verdict=MORE), LOSES_MORE, MORE),
    ],
)
def test_nobody_is_faster_for_having_lost_the_slowest(made: Claim, losses: Claim | None, verdict: str) -> None:
    made = replace(made, detectable=1.0, repetitions=7)
    pair = [made, *([losses] if losses is not None and losses.quantity != made.quantity else [])]
    guarded = next(conclusion.guarded(pair))
    assert guarded.verdict == verdict
    # What it would take is not told where repetitions are not what is lacking.
    assert (guarded.detectable, guarded.repetitions) == ((1.0, 7) if verdict == made.verdict else (None, None))


@pytest.mark.parametrize(
    ("made", "losses", "verdict", "why"),
    [
        (claim(P99, math.inf, 500, -math.inf, 0, verdict=FASTER), None, UNKNOWN,
         "losses cut the p99 of O of A: there is nothing to be faster than"),
        (claim(P99, math.inf, math.inf, -math.inf, math.inf), None, UNKNOWN, "losses cut the p99 of O of A and B"),
        (claim(P99, 1000, math.inf, -100, math.inf), None, UNKNOWN, "losses cut the p99 of O of B"),
        (claim(P99, 1000, math.inf, 100, math.inf, verdict=SLOWER), None, SLOWER, ""),
        (claim(P99, 1000, 1000, -100, 100), None, UNKNOWN, ""),
        (claim(P99, 1000, 500, -600, -400, verdict=FASTER), LOSES_MORE, UNKNOWN,
         "B lost more cycles, A 1.00 % against 4.00 % of B: a loss is worse than any answer"),
        (claim(AVG, 1000, 1000, -10, 10, verdict=SAME), LOSES_MORE, UNKNOWN,
         "B lost more cycles, A 1.00 % against 4.00 % of B: the slowest may be among them"),
    ],
)  # fmt: skip
def test_what_losses_take_away_is_said_with_the_reason(
    made: Claim, losses: Claim | None, verdict: str, why: str
) -> None:
    guarded = next(conclusion.guarded([made, *([losses] if losses else [])]))
    assert (guarded.verdict, guarded.why) == (verdict, why)


def test_each_pair_of_cells_has_losses_of_its_own() -> None:
    early, other = (claim(P99, 1000, 500, -600, -400, verdict=FASTER, cells=cells) for cells in ("ab", "cd"))
    of_other = claim(LOST, 1, 4, 2, 4, cells="cd")
    assert [each.verdict for each in conclusion.guarded([early, other, of_other])] == [FASTER, UNKNOWN, UNKNOWN]


def test_no_gate_lets_pass_who_is_early_only_for_having_lost_the_slowest() -> None:
    early = claim(P99, 1000, 500, -600, -400, verdict=FASTER)
    assert gate._of_time(early) == checks.PASS
    assert gate._of_time(next(conclusion.guarded([early, LOSES_MORE]))) == checks.UNKNOWN


def test_a_missed_deadline_is_compared_with_the_same_deadline_only() -> None:
    missed = claim(Quantity("missed", "share_percent"), 1, 4, 2, 4, verdict=MORE)
    assert conclusion.of_deadlines(missed, 20, 20).verdict == MORE
    other = conclusion.of_deadlines(missed, 20, 50)
    assert (other.verdict, other.why) == (UNKNOWN, "A's deadline is 20 ms, B's 50 ms")
    assert conclusion.of_deadlines(claim(P50, 1, 2, 1, 1, verdict=SLOWER), 20, 50).verdict == SLOWER


def test_what_could_have_been_found_and_what_it_would_take() -> None:
    """Ten repetitions, critical value 2.5, an interval that reaches 250 µs: the standard error is 100 µs."""
    made = conclusion._with_needs(claim(P99, 1000, 1200, -50, 450), 250, 2.5, 10)
    power = stats.norm.ppf(0.8)
    assert made.detectable == pytest.approx((2.5 + power) * 100)
    settled = stats.norm.ppf(stats.t.cdf(2.5, 18)) + power
    assert made.repetitions == math.ceil(10 * (settled * 100 / 200) ** 2)


def test_what_lies_within_the_margin_takes_as_many_as_show_that_it_does() -> None:
    made = conclusion._with_needs(claim(P99, 1000, 1000, -250, 250), 250, 2.5, 10)
    settled = stats.norm.ppf(stats.t.cdf(2.5, 18)) + stats.norm.ppf(0.8)
    assert made.repetitions == math.ceil(10 * (settled * 100 / 50) ** 2)


def test_more_repetitions_than_anybody_runs_are_not_promised() -> None:
    assert conclusion._with_needs(claim(P99, 1000, 1000.1, -1, 1, margin=0.1), 25_000, 2.5, 10).repetitions is None
    assert conclusion._with_needs(claim(P99, 1000, 9000, 0, 1), 1, 2.5, 10).repetitions == 11


@pytest.mark.parametrize(
    ("reach", "critical", "quantity", "why"),
    [
        (250, math.inf, P99, "3 repetitions side by side are too few"), (250, 0, P99, "3 repetitions side by side"),
        (math.inf, 2.5, P99, "losses leave the interval open"),
        (math.inf, 2.5, LOST, "so few repetitions leave the interval open"),
    ],
)  # fmt: skip
def test_where_nothing_can_be_told_it_says_why(reach: float, critical: float, quantity: Quantity, why: str) -> None:
    made = conclusion._with_needs(claim(quantity, 1000, 1000, -1, 1), reach, critical, 3)
    assert made.why.startswith(why)
    assert made.detectable is None
    assert made.repetitions == (conclusion.ENOUGH if why.startswith("3") else None)

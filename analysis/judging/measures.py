# SPDX-License-Identifier: Apache-2.0
"""What is compared of two cells: each side's value as the table has it, scores to test it by, and limits to tell it by.

A side's value is that of its pooled cycles. What is relabelled are *scores*, one for each repetition, that do not
depend on the labels: how far the repetition pulls the statistic of A and B together. For a mean or a share that is its
residual about the joint value (Cochran 1977, "Sampling techniques", section 6.3). For a quantile it is the mean rank
score of its cycles (Hájek and Šidák 1967, "Theory of rank tests"), which rises from 0 to 1 about the joint quantile,
over the ranks that a quantile of one repetition may have (Harrell and Davis 1982): with long repetitions that is the
share of cycles beyond the joint quantile (Mood 1950), with short ones it wastes less of what they know. The share is
brought to even variance (the angular transformation, Anscombe 1948). Lost cycles rank last.

Limits of one side count repetitions as clusters; those of a quantile are where the limits of the share beyond it fall
(Woodruff 1952), infinite where that is among the lost cycles. Limits of the difference follow from those of the sides
by recovering their variances (Zou and Donner 2008; for shares Newcombe 1998).

A recovery time is one value a repetition, whose scores are plain ranks, and whose limits are order statistics: a
repetition that never recovered ranks last, and makes a limit infinite that falls on it.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import special

from analysis.judging.inference import Sides
from analysis.reading.arrays import Floats, Integers
from analysis.reading.family import Metric
from analysis.statistics import medians, shares
from analysis.statistics.bootstrap import CONFIDENCE
from analysis.statistics.cycles import Cycles, Outcomes
from analysis.statistics.distribution import Distribution
from analysis.statistics.per_cell import PERCENTILES, supported
from analysis.statistics.quantity import RECOVERY, Quantity

COMPARED = ("p50", "p90", "p99")
LEAST = 2
"""Repetitions that a side needs for a standard error."""

WIDEST = 100.0
"""The logarithm of a ratio that says nothing any more."""

Amounts = Integers | Floats
Limits = Callable[[float], tuple[float, float]]
"""From the studentised distance that is sure to a side's (low, high)."""


@dataclass(frozen=True)
class Side:
    """The counted repetitions of one cell: latencies by metric over the cycles offered, and the cycles' outcomes.

    `recovery`, None where nothing broke, has one value for each repetition.
    """

    latencies: Mapping[Metric, Distribution]
    outcomes: Outcomes
    recovery: Distribution | None = None

    @property
    def repetitions(self) -> int:
        """The number of repetitions, R."""
        return len(self.outcomes.offered)


@dataclass(frozen=True)
class Measure:
    """One statistic of two sides, in its quantity's unit, with scores (RA,) and (RB,) in steps of `quantum`.

    `of_answered`: it leaves lost cycles out, so that a loss can flatter it.
    """

    quantity: Quantity
    a: float
    b: float
    scores_a: Floats
    scores_b: Floats
    quantum: float
    limits_a: Limits
    limits_b: Limits
    of_answered: bool = False

    def interval(self, critical: float) -> tuple[float, float]:
        """Return the limits of B − A at `critical` standard errors; infinite where losses or too few leave none."""
        if math.isinf(critical):
            return -math.inf, math.inf
        (low_a, high_a), (low_b, high_b) = self.limits_a(critical), self.limits_b(critical)
        if math.isinf(self.a) or math.isinf(self.b):
            return -math.inf if math.isinf(high_a) else low_b - high_a, math.inf if math.isinf(
                high_b
            ) else high_b - low_a
        if self.quantity.is_time and min(self.a, self.b, low_a, low_b) > 0:
            return self._of_ratio(low_a, high_a, low_b, high_b)
        difference = self.b - self.a
        return (
            difference - math.hypot(self.b - low_b, high_a - self.a),
            difference + math.hypot(high_b - self.b, self.a - low_a),
        )

    def _of_ratio(self, *limits: float) -> tuple[float, float]:
        """Return the limits of B − A by way of the ratio B / A, as suits times: the lower one is never below −A."""
        a, b = math.log(self.a), math.log(self.b)
        low_a, high_a, low_b, high_b = map(math.log, limits)
        low = b - a - math.hypot(b - low_b, high_a - a)
        high = b - a + math.hypot(high_b - b, a - low_a)
        return self.a * math.expm1(low), math.inf if high > WIDEST else self.a * math.expm1(high)


def of_cycles(cycles: Cycles, deadline_ms: int, recovery: Distribution | None = None) -> Side:
    """Return a side from its cycles; recoveries are kept only where every repetition has one."""
    outcomes = cycles.outcomes(deadline_ms)
    whole = recovery is not None and len(recovery.lost) == len(outcomes.offered)
    latencies = {metric: cycles.latencies(metric.name) for metric in cycles.family.metrics}
    return Side(latencies, outcomes, recovery if whole else None)


def of_sides(a: Side, b: Side) -> list[Measure]:
    """Return a measure for every statistic that both sides support; none where a side has too few repetitions."""
    if min(a.repetitions, b.repetitions) < LEAST:
        return []
    latencies = (
        m
        for metric, distribution in a.latencies.items()
        for m in _of_latencies(metric, distribution, b.latencies[metric])
    )
    recoveries = [_recovery(a.recovery, b.recovery)] if a.recovery and b.recovery else []
    return [*recoveries, *latencies, *_of_outcomes(a.outcomes, b.outcomes)]


def sides(
    compared: Sequence[Measure], headlines: Sequence[Quantity], chosen: tuple[list[int], list[int]] | None = None
) -> Sides:
    """Return the scores of one pair of cells with their families, of `chosen` repetitions by their place, or of all."""
    a, b = chosen or (slice(None), slice(None))
    families = [headlines.index(m.quantity) if m.quantity in headlines else len(headlines) for m in compared]
    return Sides(
        np.stack([measure.scores_a[a] for measure in compared], axis=1),
        np.stack([measure.scores_b[b] for measure in compared], axis=1),
        np.array([measure.quantum for measure in compared]),
        np.array(families),
    )


def _recovery(a: Distribution, b: Distribution) -> Measure:
    """Return the measure of the median recovery; one rank is its quantum."""
    limits_a, limits_b = (_ordered(of) for of in (a, b))
    measure = _quantile(Quantity(RECOVERY, "p50"), PERCENTILES["p50"], a, b)
    return replace(measure, quantum=1 / (a.offered + b.offered), limits_a=limits_a, limits_b=limits_b)


def _of_latencies(metric: Metric, a: Distribution, b: Distribution) -> Iterator[Measure]:
    if min((a.answered > 0).sum(), (b.answered > 0).sum()) >= LEAST:
        yield _mean(metric.name, a, b)
    if metric.answered_only:
        a, b = a.without_lost(), b.without_lost()
    for name in COMPARED:
        if supported(PERCENTILES[name], min(a.offered, b.offered)):
            measure = _quantile(Quantity(metric.name, name), PERCENTILES[name], a, b)
            yield replace(measure, of_answered=metric.answered_only)


def _mean(metric: str, a: Distribution, b: Distribution) -> Measure:
    scores_a, scores_b = _residuals((a.sums, a.answered), (b.sums, b.answered))
    value_a, value_b = (float(of.sums.sum() / of.total) for of in (a, b))
    limits = [_around(value, of.sums, of.answered) for value, of in ((value_a, a), (value_b, b))]
    return Measure(Quantity(metric, "avg"), value_a, value_b, scores_a, scores_b, 1.0, limits[0], limits[1], True)


def _quantile(quantity: Quantity, q: float, a: Distribution, b: Distribution) -> Measure:
    sizes = [of.answered + of.lost for of in (a, b)]
    size = float(np.concatenate(sizes).mean())
    angles = _angles(np.concatenate(_rank_scores(q, size, a, b)), np.concatenate(sizes))
    scores_a, scores_b = np.split(angles, [len(a.lost)])
    value_a, value_b = (of.pooled_quantile(q) for of in (a, b))
    limits = [_woodruff(value, q, of) for value, of in ((value_a, a), (value_b, b))]
    return Measure(quantity, value_a, value_b, scores_a, scores_b, 1 / size, limits[0], limits[1])


def _of_outcomes(a: Outcomes, b: Outcomes) -> Iterator[Measure]:
    for metric in ("lost", "missed"):
        yield _share(metric, a, b)
        bursts = [getattr(of, f"{metric}_burst") for of in (a, b)]
        if any(counts.any() for counts in bursts):
            yield _burst(metric, *bursts)


def _share(metric: str, a: Outcomes, b: Outcomes) -> Measure:
    events_a, events_b = getattr(a, metric), getattr(b, metric)
    scores_a, scores_b = _residuals((events_a, a.offered), (events_b, b.offered))
    quantum = 1 / float(np.concatenate([a.offered, b.offered]).mean())
    return Measure(
        Quantity(metric, "share_percent"),
        100 * float(events_a.sum() / a.offered.sum()),
        100 * float(events_b.sum() / b.offered.sum()),
        scores_a,
        scores_b,
        quantum,
        _exact(events_a, a.offered, len(events_a) + len(events_b)),
        _exact(events_b, b.offered, len(events_a) + len(events_b)),
    )


def _burst(metric: str, a: Integers, b: Integers) -> Measure:
    value_a, value_b = float(a.mean()), float(b.mean())
    limits = [_around(value, bursts, np.ones_like(bursts)) for value, bursts in ((value_a, a), (value_b, b))]
    return Measure(
        Quantity(metric, "burst"), value_a, value_b, a.astype(float), b.astype(float), 1.0, limits[0], limits[1]
    )


def _residuals(a: tuple[Amounts, Integers], b: tuple[Amounts, Integers]) -> tuple[Floats, Floats]:
    """Return (RA,), (RB,): each repetition's amount − joint ratio × size, over the mean size; from (amounts, sizes)."""
    sizes = np.concatenate([a[1], b[1]])
    ratio = (a[0].sum() + b[0].sum()) / sizes.sum()
    scores_a, scores_b = ((amounts - ratio * side_sizes) / sizes.mean() for amounts, side_sizes in (a, b))
    return scores_a, scores_b


def _around(value: float, amounts: Integers, sizes: Integers) -> Limits:
    """Return the limits of a ratio: `value` ± a number of standard errors, not below 0."""
    count = len(sizes)
    residual = (amounts - value * sizes) / sizes.mean()
    error = math.sqrt(float(residual @ residual) / (count - 1) / count)
    return lambda critical: (max(value - critical * error, 0.0), value + critical * error)


def _exact(events: Integers, offered: Integers, repetitions: int) -> Limits:
    """Return the limits of a share in %; `repetitions` is the number on both sides together."""

    def limits(critical: float) -> tuple[float, float]:
        low, high = shares.interval(events, offered, _confidence(critical, repetitions))
        return 100 * low, 100 * high

    return limits


def _ordered(of: Distribution) -> Limits:
    values = np.concatenate([np.repeat(of.values_us, of.counts.sum(axis=0)), np.full(int(of.lost.sum()), math.inf)])

    def limits(critical: float) -> tuple[float, float]:
        return medians.limits(values, _confidence(critical, 2 * len(values))) or (0.0, math.inf)

    return limits


def _woodruff(value: float, q: float, of: Distribution) -> Limits:
    def limits(critical: float) -> tuple[float, float]:
        confidence = _confidence(critical, 2 * len(of.lost))
        low, high = shares.limits(1 - q, _beyond(of, value), of.answered + of.lost, confidence)
        return of.pooled_quantile(1 - high), of.pooled_quantile(1 - low)

    return limits


def _confidence(critical: float, repetitions: int) -> float:
    """Return the confidence of ± `critical` standard errors by Student's t, at least `CONFIDENCE` and below 1."""
    return min(max(1 - 2 * float(special.stdtr(repetitions - 2, -critical)), CONFIDENCE), 1 - 1e-9)


def _rank_scores(q: float, size: float, a: Distribution, b: Distribution) -> tuple[Floats, Floats]:
    """Return (RA,), (RB,): the sum of rank scores of each repetition's cycles; `size` is the mean number of cycles."""
    total = a.offered + b.offered
    values = np.union1d(a.values_us, b.values_us)
    reached = np.concatenate([[0], _pooled_at(a, values) + _pooled_at(b, values)])
    share = np.append(reached, total) / total
    # Cycles of equal latency share the average of the scores over their ranks; the lost ones come last.
    width = np.diff(share)
    scores = np.diff(_integrated(share, q, size)) / np.where(width > 0, width, 1)
    sums = (of.counts @ scores[np.searchsorted(values, of.values_us)] + of.lost * scores[-1] for of in (a, b))
    one, other = sums
    return one, other


def _angles(sums: Floats, sizes: Integers) -> Floats:
    """Return (R,): the angle whose squared sine is the mean score; without cycles, that of the average repetition."""
    some = sizes > 0
    angles = np.arcsin(np.sqrt(np.clip(sums[some] / sizes[some], 0, 1)))
    result = np.full(len(sizes), angles.mean())
    result[some] = angles
    return result


def _integrated(share: Floats, q: float, size: float) -> Floats:
    """Return, for each share of ranks, the integral up to it of the distribution of a quantile `q`'s rank."""
    above, below = (size + 1) * q, (size + 1) * (1 - q)
    centre = above / (above + below)
    return np.asarray(share * special.betainc(above, below, share) - centre * special.betainc(above + 1, below, share))


def _pooled_at(of: Distribution, values: Integers) -> Integers:
    """Return (V,): cycles of all repetitions at or below each of `values` (V,)."""
    pooled = np.concatenate([[0], of.pooled])
    return np.asarray(pooled[np.searchsorted(of.values_us, values, side="right")])


def _beyond(of: Distribution, value: float) -> Integers:
    """Return (R,): cycles of each repetition beyond `value`, the lost ones among them."""
    at = int(np.searchsorted(of.values_us, value, side="right"))
    return np.asarray(of.lost + of.counts[:, at:].sum(axis=1))

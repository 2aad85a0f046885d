# SPDX-License-Identifier: Apache-2.0
"""From samples to the figures of each cell: what tables, plots, report and comparison all start from."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from analysis.reading.arrays import Floats, Integers
from analysis.reading.bundle import Bundle, Cell
from analysis.statistics import bootstrap, cycles, recovery, sequential, shares
from analysis.statistics.distribution import Distribution, weighted_means
from analysis.statistics.estimate import Estimate, Interval
from analysis.statistics.quantity import RECOVERY, Quantity

PERCENTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


@dataclass(frozen=True)
class Counts:
    """Cycles of a cell: offered = ok + late + lost; `duplicate` answers and `reordered` ones are counted beside."""

    offered: int
    ok: int
    late: int
    lost: int
    duplicate: int
    reordered: int


@dataclass(frozen=True)
class CellSummary:
    """One cell: its counts and, for each metric that has samples, the distribution and the estimates from it.

    Where something broke, `recovery` is a metric too, of which a repetition has one sample. A percentile that losses
    cut is not among the estimates but in `cut`, by metric; a median recovery that never came is among them. `outcomes`
    has the shares and bursts of lost cycles and missed deadlines.
    """

    cell: Cell
    repetitions: int
    counts: Counts
    misses: cycles.Misses
    distributions: Mapping[str, Distribution]
    estimates: Mapping[str, Mapping[str, Estimate]]
    cut: Mapping[str, tuple[str, ...]]
    outcomes: Mapping[Quantity, Interval]
    ramps: Floats
    """(R,): by how much of itself the round trip rises from the first half of each repetition to the second."""

    def interval(self, quantity: Quantity) -> Interval | None:
        """Return any statistic of the cell; infinite where losses cut it, None where the count does not support it."""
        if not quantity.is_time:
            return self.outcomes.get(quantity)
        silent = self.counts.lost == self.counts.offered > 0 and not self._of_answered(quantity)
        if silent or quantity.statistic in self.cut.get(quantity.metric, ()):
            return Interval(math.inf)
        estimate = self.estimates.get(quantity.metric, {}).get(quantity.statistic)
        return Interval(estimate.value_us, estimate.low_us, estimate.high_us) if estimate else None

    def _of_answered(self, quantity: Quantity) -> bool:
        metric = self.cell.family.by_name.get(quantity.metric)
        return quantity.of_answered or (metric is not None and metric.answered_only)


def summarise(bundle: Bundle) -> tuple[CellSummary, ...]:
    """Summarise every planned cell that has a counted repetition, in the plan's order; one cell in memory at a time."""
    counted = {cell.index: sum(r.counted and r.cell == cell.index for r in bundle.repetitions) for cell in bundle.cells}
    return tuple(_summary(bundle, cell, counted[cell.index]) for cell in bundle.cells if counted[cell.index])


def _summary(bundle: Bundle, cell: Cell, repetitions: int) -> CellSummary:
    cell_cycles = cycles.read(bundle, cell)
    seed = (int(bundle.plan["seed"]), cell.index)
    answered_only = {metric.name for metric in bundle.metrics if metric.answered_only}
    latencies = {metric: cell_cycles.latencies(metric) for metric in cell_cycles.latencies_us}
    distributions = {
        metric: of.of_answered() if metric in answered_only else of for metric, of in latencies.items() if of.total
    }
    confidence = sequential.confidence(bundle)
    estimates, cut = {}, {}
    for metric, of in distributions.items():
        by_statistic = estimate(of, seed, confidence) | _jitter(cell_cycles, metric, seed, confidence)
        cut[metric] = tuple(name for name, one in by_statistic.items() if math.isinf(one.value_us))
        estimates[metric] = {name: one for name, one in by_statistic.items() if name not in cut[metric]}
    if recoveries := recovery.of_cell(bundle, cell):
        distributions[RECOVERY] = recovery.distribution(recoveries)
        estimates[RECOVERY] = {"p50": recovery.median(recovery.times_us(recoveries), confidence)}
    ok, late, lost, duplicate = (cell_cycles.rows.get(status, 0) for status in ("ok", "late", "lost", "duplicate"))
    outcomes = cell_cycles.outcomes(cell.deadline_ms)
    return CellSummary(
        cell=cell,
        repetitions=repetitions,
        counts=Counts(ok + late + lost, ok, late, lost, duplicate, cell_cycles.reordered()),
        misses=outcomes.misses(cell.deadline_ms),
        distributions=distributions,
        estimates=estimates,
        cut=cut,
        outcomes=_outcomes(outcomes, seed, confidence),
        ramps=cell_cycles.ramps(bundle.round_trip),
    )


def _outcomes(outcomes: cycles.Outcomes, seed: tuple[int, ...], confidence: float) -> dict[Quantity, Interval]:
    """Return shares in % and bursts in cycles: `burst` averages the repetitions' longest, `longest_burst` is of all."""
    if not len(outcomes.offered):
        return {}
    intervals = {}
    for metric, events, bursts in (
        ("lost", outcomes.lost, outcomes.lost_burst),
        ("missed", outcomes.missed, outcomes.missed_burst),
    ):
        intervals[Quantity(metric, "share_percent")] = _share(events, outcomes.offered, confidence)
        intervals[Quantity(metric, "burst")] = _burst(bursts, seed, confidence)
        intervals[Quantity(metric, "longest_burst")] = Interval(float(bursts.max()))
    return intervals


def _share(events: Integers, offered: Integers, confidence: float) -> Interval:
    value = 100 * float(events.sum() / offered.sum())
    if len(offered) < bootstrap.MINIMUM_REPETITIONS:
        return Interval(value)
    low, high = shares.interval(events, offered, confidence)
    return Interval(value, 100 * low, 100 * high)


def _burst(bursts: Integers, seed: tuple[int, ...], confidence: float) -> Interval:
    """Return the mean burst; without an interval where all repetitions are alike, for resampling would show none."""
    value = float(bursts.mean())
    if len(bursts) < bootstrap.MINIMUM_REPETITIONS or bursts.min() == bursts.max():
        return Interval(value)
    replicates = weighted_means(bursts, np.ones_like(bursts), bootstrap.resample(len(bursts), seed))
    low, high = bootstrap.interval(np.asarray(value), replicates, len(bursts), confidence)
    return Interval(value, max(float(low), 0.0), float(high))


def supported(q: float, count: int) -> bool:
    """Return whether `count` samples bound quantile `q` from above with 95 % confidence: n ≥ ln(0.05) / ln(q).

    Wilks (1941), "Determination of sample sizes for setting tolerance limits": 29 for p90, 299 for p99, 2995 for p99.9.
    """
    return count >= math.ceil(math.log(1 - bootstrap.CONFIDENCE) / math.log(q))


def estimate(
    distribution: Distribution, seed: tuple[int, ...], confidence: float = bootstrap.CONFIDENCE
) -> dict[str, Estimate]:
    """Return, by statistic, min, avg, the percentiles that the count supports, and max, in µs.

    Percentiles are of the cycles offered, infinite from the share that was lost on; the others of those answered.
    Extremes get no interval: the bootstrap is inconsistent for them (Bickel and Freedman 1981).
    """
    answered = distribution.of_answered()
    values, means = distribution.values_us, _estimate(answered.means, len(answered.repetitions), seed, confidence)
    result = {"min": Estimate(float(values[0])), "avg": means}
    for name, q in PERCENTILES.items():
        if supported(q, distribution.offered):
            result[name] = _estimate(
                partial(distribution.quantiles, q=q), len(distribution.repetitions), seed, confidence
            )
    result["max"] = Estimate(float(values[-1]))
    return result


def _jitter(cell_cycles: cycles.Cycles, metric: str, seed: tuple[int, ...], confidence: float) -> dict[str, Estimate]:
    sums, numbers = cell_cycles.variation(metric)
    if not len(numbers):
        return {}
    return {"jitter": _estimate(partial(weighted_means, sums, numbers), len(sums), seed, confidence)}


def _estimate(
    statistic: Callable[[Integers], Floats], repetitions: int, seed: tuple[int, ...], confidence: float
) -> Estimate:
    """Return a statistic, given as a function of weights (B, R), with an interval if there are enough repetitions."""
    value = statistic(np.ones((1, repetitions), dtype=np.int64))[0]
    if repetitions < bootstrap.MINIMUM_REPETITIONS or math.isinf(value):
        return Estimate(float(value))
    low, high = bootstrap.positive_interval(
        value, statistic(bootstrap.resample(repetitions, seed)), repetitions, confidence
    )
    return Estimate(float(value), float(low), float(high))

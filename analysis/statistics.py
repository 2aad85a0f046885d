# SPDX-License-Identifier: Apache-2.0
"""From samples to the figures of each cell: what tables, plots, report and comparison all start from."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from analysis import bootstrap, cycles, sequential
from analysis.bundle import Bundle, Cell
from analysis.distribution import Distribution, Floats, Integers, weighted_means

PERCENTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


@dataclass(frozen=True)
class Estimate:
    """A statistic in µs, and its interval where repetitions allow one: 95 %, or `sequential.confidence`."""

    value_us: float
    low_us: float | None = None
    high_us: float | None = None


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
    """One cell: its counts and, for each metric that has samples, the distribution and the estimates from it."""

    cell: Cell
    repetitions: int
    counts: Counts
    misses: cycles.Misses
    distributions: Mapping[str, Distribution]
    estimates: Mapping[str, Mapping[str, Estimate]]


def summarise(bundle: Bundle) -> tuple[CellSummary, ...]:
    """Every planned cell that has a counted repetition, in the plan's order; one cell in memory at a time."""
    counted = {cell.index: sum(r.counted and r.cell == cell.index for r in bundle.repetitions) for cell in bundle.cells}
    return tuple(_summary(bundle, cell, counted[cell.index]) for cell in bundle.cells if counted[cell.index])


def _summary(bundle: Bundle, cell: Cell, repetitions: int) -> CellSummary:
    own = cycles.read(bundle, cell)
    seed = (int(bundle.plan["seed"]), cell.index)
    found = {metric: distribution for metric in cycles.METRICS if (distribution := own.latencies(metric))}
    confidence = sequential.confidence(bundle)
    estimates = {m: estimate(found[m], seed, confidence) | _jitter(own, m, seed, confidence) for m in found}
    ok, late, lost, duplicate = (own.rows.get(status, 0) for status in ("ok", "late", "lost", "duplicate"))
    counts = Counts(ok + late + lost, ok, late, lost, duplicate, own.reordered())
    return CellSummary(cell, repetitions, counts, own.misses(bundle.deadline_ms(cell)), found, estimates)


def supported(q: float, count: int) -> bool:
    """Whether `count` samples bound quantile `q` from above with 95 % confidence: n ≥ ln(0.05) / ln(q).

    Wilks (1941), "Determination of sample sizes for setting tolerance limits": 29 for p90, 299 for p99, 2995 for p99.9.
    """
    return count >= math.ceil(math.log(1 - bootstrap.CONFIDENCE) / math.log(q))


def estimate(
    distribution: Distribution, seed: tuple[int, ...], confidence: float = bootstrap.CONFIDENCE
) -> dict[str, Estimate]:
    """min, avg, the percentiles that the count supports, and max.

    Extremes get no interval: the bootstrap is inconsistent for them (Bickel and Freedman 1981).
    """
    values, repetitions = distribution.values_us, len(distribution.repetitions)
    result = {"min": Estimate(float(values[0])), "avg": _estimate(distribution.means, repetitions, seed, confidence)}
    for name, q in PERCENTILES.items():
        if supported(q, distribution.total):
            result[name] = _estimate(partial(distribution.quantiles, q=q), repetitions, seed, confidence)
    result["max"] = Estimate(float(values[-1]))
    return result


def _jitter(own: cycles.Cycles, metric: str, seed: tuple[int, ...], confidence: float) -> dict[str, Estimate]:
    sums, numbers = own.variation(metric)
    if not len(numbers):
        return {}
    return {"jitter": _estimate(partial(weighted_means, sums, numbers), len(sums), seed, confidence)}


def _estimate(
    statistic: Callable[[Integers], Floats], repetitions: int, seed: tuple[int, ...], confidence: float
) -> Estimate:
    """A statistic, given as a function of weights (B, R), and its interval where repetitions are enough for one."""
    value = statistic(np.ones((1, repetitions), dtype=np.int64))[0]
    if repetitions < bootstrap.MINIMUM_REPETITIONS:
        return Estimate(float(value))
    low, high = bootstrap.positive_interval(
        value, statistic(bootstrap.resample(repetitions, seed)), repetitions, confidence
    )
    return Estimate(float(value), float(low), float(high))

"""From samples to the figures of each cell: what tables, plots, report and comparison all start from."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from analysis import bootstrap, cycles
from analysis.bundle import Bundle, Cell
from analysis.distribution import Distribution, Floats, from_rows

ANSWERED = ("ok", "late")

METRICS: Mapping[str, pl.Expr] = {
    "T": pl.col("t_us"),
    "R": pl.col("r_us"),
    "O": pl.col("o_us"),
    "T_intended": (pl.col("received_ns") - pl.col("intended_ns") + 500) // 1000,
}
"""Whole µs a cycle. `T_intended` runs from the time planned, so that a sender that falls behind cannot hide it
(coordinated omission: Tene 2013, "How not to measure latency")."""

PERCENTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99.9": 0.999}


@dataclass(frozen=True)
class Estimate:
    """A statistic in µs, and its 95 % interval where repetitions allow one."""

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
    """Every planned cell that has a counted repetition, in the plan's order."""
    ordered = cycles.in_order(bundle)
    counts = _counts(bundle, cycles.reordered(ordered))
    misses = cycles.misses(ordered, {cell.index: bundle.deadline_ms(cell) for cell in bundle.cells})
    variations = {metric: cycles.variation(ordered, value) for metric, value in METRICS.items()}
    del ordered
    distributions = {metric: distributions_of(bundle, metric) for metric in METRICS}
    summaries = []
    for cell in bundle.cells:
        repetitions = sum(r.counted and r.cell == cell.index for r in bundle.repetitions)
        own = {metric: found[cell.index] for metric, found in distributions.items() if cell.index in found}
        seed = (int(bundle.plan["seed"]), cell.index)
        estimates = {m: estimate(found, variations[m].get(cell.index), seed) for m, found in own.items()}
        if repetitions:
            count = counts.get(cell.index, Counts(0, 0, 0, 0, 0, 0))
            summaries.append(CellSummary(cell, repetitions, count, misses[cell.index], own, estimates))
    return tuple(summaries)


def distributions_of(bundle: Bundle, metric: str) -> dict[int, Distribution]:
    """The distribution of `metric` in each cell that has samples, over answered cycles of counted repetitions."""
    counts = (
        bundle.counted()
        .filter(pl.col("status").is_in(ANSWERED))
        .select("cell", "repetition", METRICS[metric].alias("value"))
        .drop_nulls()
        .group_by("cell", "repetition", "value")
        .len("count")
        .collect(engine="streaming")
    )
    return from_rows(counts)


def supported(q: float, count: int) -> bool:
    """Whether `count` samples bound quantile `q` from above with 95 % confidence: n ≥ ln(0.05) / ln(q).

    Wilks (1941), "Determination of sample sizes for setting tolerance limits": 29 for p90, 299 for p99, 2995 for p99.9.
    """
    return count >= math.ceil(math.log(1 - bootstrap.CONFIDENCE) / math.log(q))


def estimate(distribution: Distribution, variation: Distribution | None, seed: tuple[int, ...]) -> dict[str, Estimate]:
    """min, avg, the percentiles that the count supports, max, and jitter, the mean of `variation`.

    Extremes get no interval: the bootstrap is inconsistent for them (Bickel and Freedman 1981).
    """
    values = distribution.values_us
    result = {"min": Estimate(float(values[0])), "avg": _estimate(distribution, Distribution.means, seed)}
    for name, q in PERCENTILES.items():
        if supported(q, distribution.total):
            result[name] = _estimate(distribution, partial(Distribution.quantiles, q=q), seed)
    result["max"] = Estimate(float(values[-1]))
    if variation is not None:
        result["jitter"] = _estimate(variation, Distribution.means, seed)
    return result


def _estimate(distribution: Distribution, statistic: Callable[..., Floats], seed: tuple[int, ...]) -> Estimate:
    """A statistic over all repetitions, with its interval where there are enough of them."""
    repetitions = len(distribution.repetitions)
    value = float(statistic(distribution, weights=np.ones((1, repetitions), dtype=np.int64))[0])
    if repetitions < bootstrap.MINIMUM_REPETITIONS:
        return Estimate(value)
    replicates = statistic(distribution, weights=bootstrap.resample(repetitions, seed))
    low, high = bootstrap.interval(replicates, repetitions)
    return Estimate(value, float(low), float(high))


def _counts(bundle: Bundle, reordered: Mapping[int, int]) -> dict[int, Counts]:
    status = pl.col("status")
    names = ("ok", "late", "lost", "duplicate")
    rows = bundle.counted().group_by("cell").agg((status == name).sum().alias(name) for name in names)
    result = {}
    for row in rows.collect(engine="streaming").to_dicts():
        own = {name: int(row[name]) for name in names}
        offered = own["ok"] + own["late"] + own["lost"]
        result[int(row["cell"])] = Counts(offered=offered, reordered=reordered.get(row["cell"], 0), **own)
    return result

"""From samples to the figures of each cell: what tables, plots, report and comparison all start from."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from analysis import bootstrap
from analysis.bundle import Bundle, Cell
from analysis.distribution import Distribution, Integers

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
    distributions: Mapping[str, Distribution]
    estimates: Mapping[str, Mapping[str, Estimate]]


def summarise(bundle: Bundle) -> tuple[CellSummary, ...]:
    """Every planned cell that has a counted repetition, in the plan's order."""
    distributions = {metric: distributions_of(bundle, metric) for metric in METRICS}
    counts = _counts(bundle)
    counted = {cell.index: sum(r.counted and r.cell == cell.index for r in bundle.repetitions) for cell in bundle.cells}
    return tuple(
        _summary(bundle, cell, counted[cell.index], counts.get(cell.index, Counts(0, 0, 0, 0, 0, 0)), distributions)
        for cell in bundle.cells
        if counted[cell.index]
    )


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
    return {int(cell): _distribution(rows) for (cell,), rows in counts.partition_by("cell", as_dict=True).items()}


def supported(q: float, count: int) -> bool:
    """Whether `count` samples bound quantile `q` from above with 95 % confidence: n ≥ ln(0.05) / ln(q).

    Wilks (1941), "Determination of sample sizes for setting tolerance limits": 29 for p90, 299 for p99, 2995 for p99.9.
    """
    return count >= math.ceil(math.log(1 - bootstrap.CONFIDENCE) / math.log(q))


def _summary(
    bundle: Bundle, cell: Cell, repetitions: int, counts: Counts, distributions: Mapping[str, dict[int, Distribution]]
) -> CellSummary:
    own = {metric: by_cell[cell.index] for metric, by_cell in distributions.items() if cell.index in by_cell}
    seed = (int(bundle.plan["seed"]), cell.index)
    estimates = {metric: estimate(distribution, seed) for metric, distribution in own.items()}
    return CellSummary(cell, repetitions, counts, own, estimates)


def estimate(distribution: Distribution, seed: tuple[int, ...]) -> dict[str, Estimate]:
    """min, avg, the percentiles that the count supports, and max.

    Extremes get no interval: the bootstrap is inconsistent for them (Bickel and Freedman 1981).
    """
    values = distribution.values_us
    repetitions = len(distribution.repetitions)
    everything = np.ones((1, repetitions), dtype=np.int64)
    enough = repetitions >= bootstrap.MINIMUM_REPETITIONS
    weights = bootstrap.resample(repetitions, seed) if enough else None

    result = {"min": Estimate(float(values[0])), "avg": _mean(distribution, everything, weights)}
    for name, q in PERCENTILES.items():
        if supported(q, distribution.total):
            result[name] = _quantile(distribution, q, everything, weights)
    result["max"] = Estimate(float(values[-1]))
    return result


def _mean(distribution: Distribution, everything: Integers, weights: Integers | None) -> Estimate:
    value = float(distribution.means(everything)[0])
    if weights is None:
        return Estimate(value)
    low, high = bootstrap.interval(distribution.means(weights), weights.shape[1])
    return Estimate(value, float(low), float(high))


def _quantile(distribution: Distribution, q: float, everything: Integers, weights: Integers | None) -> Estimate:
    value = float(distribution.quantiles(q, everything)[0])
    if weights is None:
        return Estimate(value)
    low, high = bootstrap.interval(distribution.quantiles(q, weights), weights.shape[1])
    return Estimate(value, float(low), float(high))


def _distribution(rows: pl.DataFrame) -> Distribution:
    """From (repetition, value, count) of one cell; polars' order is not fixed, the result's is."""
    repetitions, row = np.unique(rows["repetition"].to_numpy(), return_inverse=True)
    values, column = np.unique(rows["value"].to_numpy(), return_inverse=True)
    counts = np.zeros((len(repetitions), len(values)), dtype=np.int64)
    counts[row, column] = rows["count"].to_numpy()
    return Distribution(values, counts, repetitions)


def _counts(bundle: Bundle) -> dict[int, Counts]:
    status = pl.col("status")
    names = ("ok", "late", "lost", "duplicate")
    rows = bundle.counted().group_by("cell").agg((status == name).sum().alias(name) for name in names)
    reordered = _reordered(bundle)
    result = {}
    for row in rows.collect(engine="streaming").to_dicts():
        own = {name: int(row[name]) for name in names}
        offered = own["ok"] + own["late"] + own["lost"]
        result[int(row["cell"])] = Counts(offered=offered, reordered=reordered.get(row["cell"], 0), **own)
    return result


def _reordered(bundle: Bundle) -> dict[int, int]:
    """By cell, the cycles answered after a later one was: reordering as RFC 4737, section 3, counts it."""
    rows = (
        bundle.counted()
        .filter(pl.col("status").is_in(ANSWERED))
        .select("cell", "repetition", "sequence", "received_ns")
        .collect(engine="streaming")
        .sort("cell", "repetition", "sequence")
    )
    overtaken = pl.col("received_ns") > pl.col("received_ns").cum_min(reverse=True).over("cell", "repetition")
    by_cell = rows.filter(overtaken).group_by("cell").len("reordered")
    return {row["cell"]: int(row["reordered"]) for row in by_cell.to_dicts()}

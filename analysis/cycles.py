"""What depends on the order of cycles: jitter, reordering, missed deadlines and how many of them in a row."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from analysis.bundle import Bundle
from analysis.distribution import Distribution, from_rows

ORDER = ("cell", "repetition", "sequence")


@dataclass(frozen=True)
class Misses:
    """Cycles without an answer `deadline_ms` after their intended time, and the most of them in a row."""

    deadline_ms: int
    count: int
    longest_burst: int


def in_order(bundle: Bundle) -> pl.DataFrame:
    """Every counted cycle by cell, repetition and sequence."""
    return (
        bundle.counted()
        .filter(pl.col("status") != "duplicate")
        .select(*ORDER, "intended_ns", "received_ns", "t_us", "r_us", "o_us")
        .collect(engine="streaming")
        .sort(ORDER)
    )


def variation(cycles: pl.DataFrame, value: pl.Expr) -> dict[int, Distribution]:
    """By cell, the absolute differences of latency, in µs, between one cycle and the next; none across a lost one.

    |D(i−1, i)| of RFC 3550, section 6.4.1. Jitter is their mean; the RFC's running average would forget all but the
    last some dozens of cycles.
    """
    latest = value.shift().over("cell", "repetition")
    rows = cycles.select("cell", "repetition", (value - latest).abs().alias("value")).drop_nulls()
    return from_rows(rows.group_by("cell", "repetition", "value").len("count"))


def reordered(cycles: pl.DataFrame) -> dict[int, int]:
    """By cell, the cycles answered after a later one was: reordering as RFC 4737, section 3, counts it."""
    earliest_from_here = pl.col("received_ns").cum_min(reverse=True).over("cell", "repetition")
    overtaken = cycles.filter(pl.col("received_ns") > earliest_from_here)
    return {int(cell): int(count) for cell, count in overtaken.group_by("cell").len().iter_rows()}


def misses(cycles: pl.DataFrame, deadlines_ms: Mapping[int, int]) -> dict[int, Misses]:
    """By cell of `deadlines_ms`; a lost cycle misses its deadline."""
    missed = {}
    for cell, deadline_ms in deadlines_ms.items():
        own = cycles.filter(pl.col("cell") == cell)
        in_time = own["received_ns"] - own["intended_ns"] <= deadline_ms * 1_000_000
        late = ~in_time.fill_null(value=False).to_numpy()
        missed[cell] = Misses(deadline_ms, int(late.sum()), _longest_run(late, own["repetition"].to_numpy()))
    return missed


def _longest_run(late: np.ndarray, repetition: np.ndarray) -> int:
    """The longest run of true in `late` (N,) that stays inside one repetition."""
    at = np.flatnonzero(late)
    if not len(at):
        return 0
    breaks = np.flatnonzero((np.diff(at) > 1) | (np.diff(repetition[at]) != 0)) + 1
    return int(np.diff(np.concatenate([[0], breaks, [len(at)]])).max())

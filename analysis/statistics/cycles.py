# SPDX-License-Identifier: Apache-2.0
"""The counted cycles of a cell, in order, and what follows: latency, its variation, reordering, missed deadlines."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from analysis.reading.arrays import Floats, Integers
from analysis.reading.bundle import Bundle, Cell
from analysis.reading.family import Family
from analysis.statistics import distribution
from analysis.statistics.distribution import Distribution

MISSING = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Misses:
    """Cycles without an answer `deadline_ms` after their intended time, and the most of them in a row."""

    deadline_ms: int
    count: int
    longest_burst: int


@dataclass(frozen=True)
class Outcomes:
    """Of each repetition (R,): cycles offered, lost, and without an answer by the deadline; the most in a row of both.

    Above `distribution.CLUSTERS` repetitions, neighbours are taken together as they are for latencies.
    """

    offered: Integers
    lost: Integers
    missed: Integers
    lost_burst: Integers
    missed_burst: Integers

    def misses(self, deadline_ms: int) -> Misses:
        """Return the missed deadlines of all repetitions together."""
        return Misses(deadline_ms, int(self.missed.sum()), int(np.max(self.missed_burst, initial=0)))


@dataclass(frozen=True)
class Cycles:
    """N cycles by repetition and sequence, each array (N,); `MISSING` where there was no answer.

    `latencies_us` holds whole µs by metric, the family's `intended` among them; `rows` the number of rows by status,
    duplicate answers among them.
    """

    family: Family
    repetition: Integers
    received_ns: Integers
    latencies_us: dict[str, Integers]
    rows: dict[str, int]

    def latencies(self, metric: str) -> Distribution:
        """Return the distribution of a metric over the cycles offered, lost ones last."""
        return distribution.of_values(self.latencies_us[metric], self.repetition, MISSING)

    def variation(self, metric: str) -> tuple[Integers, Integers]:
        """Return, (R,) each, the sum of absolute differences in latency between successive cycles, and their number.

        |D(i−1, i)| of RFC 3550, section 6.4.1, in µs; none across a lost cycle. Jitter is their mean; the RFC's
        running average would forget all but the last some dozens of cycles.
        """
        values_us = self.latencies_us[metric]
        pairs = (self.repetition[1:] == self.repetition[:-1]) & (values_us[1:] != MISSING) & (values_us[:-1] != MISSING)
        steps = np.abs(np.diff(values_us)[pairs])
        if not len(steps):
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        starts = distribution.clusters(self.repetition[1:][pairs])
        return np.add.reduceat(steps, starts), np.diff(np.append(starts, len(steps)))

    def ramps(self, metric: str) -> Floats:
        """Return (R,): how much the second half's mean latency exceeds that of the first, as a share of the first.

        Of answered cycles; repetitions in which a half has none are left out.
        """
        values_us = self.latencies_us[metric]
        if not len(values_us):
            return np.zeros(0)
        starts = distribution.clusters(self.repetition)
        middles = starts + np.diff(np.append(starts, len(values_us))) // 2
        halves = np.unique(np.concatenate([starts, middles]))
        if len(halves) != 2 * len(starts):  # a repetition of one cycle has no halves
            return np.zeros(0)
        answered = values_us != MISSING
        sums = np.add.reduceat(np.where(answered, values_us, 0), halves)
        counts = np.add.reduceat(answered.astype(np.int64), halves)
        means = (sums / np.maximum(counts, 1)).reshape(-1, 2)
        whole = (counts.reshape(-1, 2) > 0).all(axis=1) & (means[:, 0] > 0)
        return np.asarray(means[whole, 1] / means[whole, 0] - 1)

    def reordered(self) -> int:
        """Return the number of cycles answered after a later one: reordering as in RFC 4737, section 3."""
        total = 0
        for received_ns in self._by_repetition(self.received_ns):
            answered = received_ns[received_ns != MISSING]
            earliest_after = np.minimum.accumulate(answered[::-1])[::-1]
            total += int((answered > earliest_after).sum())
        return total

    def outcomes(self, deadline_ms: int) -> Outcomes:
        """Return the cycles' outcomes; a cycle not answered within `deadline_ms` of when it was due is missed."""
        from_intended = self.latencies_us[self.family.intended]
        lost = from_intended == MISSING
        missed = lost | (from_intended > 1000 * deadline_ms)
        if not len(missed):
            return Outcomes(*(np.zeros(0, dtype=np.int64) for _ in range(5)))
        starts = distribution.clusters(self.repetition)
        sizes = np.diff(np.append(starts, len(missed)))
        counts = [np.add.reduceat(flags.astype(np.int64), starts) for flags in (lost, missed)]
        return Outcomes(sizes, *counts, *(self._bursts(flags, starts) for flags in (lost, missed)))

    def _bursts(self, flags: npt.NDArray[np.bool_], starts: Integers) -> Integers:
        """Return (R,): the longest run of true in each cluster; none reaches across two repetitions."""
        before = np.concatenate([[False], flags[:-1] & (self.repetition[1:] == self.repetition[:-1])])
        first = np.flatnonzero(flags & ~before)
        if not len(first):
            return np.zeros(len(starts), dtype=np.int64)
        after = np.concatenate([before[1:] & flags[1:], [False]])
        lengths = np.flatnonzero(flags & ~after) - first + 1
        longest = np.zeros(len(starts), dtype=np.int64)
        np.maximum.at(longest, np.searchsorted(starts, first, side="right") - 1, lengths)
        return longest

    def _by_repetition(self, values: npt.NDArray[np.generic]) -> list[npt.NDArray[np.generic]]:
        return np.split(values, np.flatnonzero(np.diff(self.repetition)) + 1)


def read(bundle: Bundle, cell: Cell) -> Cycles:
    """Return every cycle of the cell's counted repetitions, without warm-up."""
    rows = bundle.counted(cell)
    statuses = dict(rows["status"].value_counts().iter_rows())
    ordered = in_order(rows)
    received_ns, latencies = _received_ns(cell.family), latencies_us(cell.family)
    return Cycles(
        family=cell.family,
        repetition=_whole(ordered, pl.col("repetition")),
        received_ns=_whole(ordered, received_ns),
        latencies_us={metric: _whole(ordered, latency) for metric, latency in latencies.items()},
        rows=statuses,
    )


def latencies_us(family: Family) -> dict[str, pl.Expr]:
    """Return, by metric, an expression on rows (as in `Rows`) for whole µs; null where there was no answer."""
    from_intended = (_received_ns(family) - pl.col("intended_ns") + 500) // 1000
    return {**{metric.name: pl.col(metric.column) for metric in family.metrics}, family.intended: from_intended}


def _received_ns(family: Family) -> pl.Expr:
    """Return an expression for when the answer was received; a message of the board's failure is no answer."""
    return pl.when(pl.col(family.metrics[0].column).is_not_null()).then(pl.col("received_ns"))


def _whole(rows: pl.DataFrame, values: pl.Expr) -> Integers:
    return rows.select(values.cast(pl.Int64).fill_null(MISSING)).to_series().to_numpy()


def in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one row a cycle, sorted by repetition and sequence unless they already are."""
    if (again := rows["status"] == "duplicate").any():
        rows = rows.filter(~again)
    step = rows.select("repetition", "sequence").select(pl.all().diff())
    ordered = (step["repetition"] > 0) | ((step["repetition"] == 0) & (step["sequence"] > 0))
    return rows if ordered.all() else rows.sort("repetition", "sequence")

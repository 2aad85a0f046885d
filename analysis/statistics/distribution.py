# SPDX-License-Identifier: Apache-2.0
"""Latencies of one cell as counts of distinct values by repetition: exact, and small whatever the number of samples.

A lost cycle's latency is infinite: it is counted beside the values and ranks behind all of them.

Latencies are whole microseconds, so ten million samples hold only some thousands of distinct values. Everything that
tables and figures show follows from these counts in integer arithmetic, hence the same bytes each time.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from analysis.reading.arrays import Floats, Integers

CLUSTERS = 50
WIDE = 4_000_000


@dataclass(frozen=True)
class Distribution:
    """`values_us` (V,) ascending and distinct; `counts` (R, V): how often each repetition took each value.

    `lost` (R,) counts the cycles of each repetition that have no value; 0 where only answered ones are looked at.
    """

    values_us: Integers
    counts: Integers
    repetitions: Integers
    lost: Integers

    @property
    def total(self) -> int:
        """The number of samples that have a value."""
        return int(self.answered.sum())

    @property
    def offered(self) -> int:
        """The number of samples, the lost ones among them."""
        return self.total + int(self.lost.sum())

    @cached_property
    def answered(self) -> Integers:
        """(R,): samples of each repetition that have a value."""
        return np.asarray(self.counts.sum(axis=1))

    def without_lost(self) -> "Distribution":
        """Return the same repetitions without their lost cycles."""
        return replace(self, lost=np.zeros_like(self.lost))

    def of_answered(self) -> "Distribution":
        """Return the distribution without lost cycles, and without repetitions that answered nothing."""
        if not self.lost.any():
            return self
        some = self.answered > 0
        lossless = self.without_lost()
        return replace(
            lossless, counts=lossless.counts[some], repetitions=lossless.repetitions[some], lost=lossless.lost[some]
        )

    @cached_property
    def cumulative(self) -> Integers:
        """(R, V): samples of each repetition at or below each value."""
        return np.cumsum(self.counts, axis=1)

    @cached_property
    def pooled(self) -> Integers:
        """(V,): samples of all repetitions at or below each value."""
        return np.cumsum(self.counts.sum(axis=0))

    def pooled_quantile(self, q: float) -> float:
        """Return the quantile `q` of all repetitions in µs, defined as in `quantiles`."""
        position = (self.offered - 1) * q
        low, high = (self._at_rank(rank) for rank in (math.floor(position), math.ceil(position)))
        return low if low == high else low + (high - low) * (position - math.floor(position))

    def _at_rank(self, rank: int) -> float:
        """Return the value that `rank` others precede; infinite among the lost."""
        at = int(np.searchsorted(self.pooled, rank, side="right"))
        return float(self.values_us[at]) if at < len(self.values_us) else math.inf

    def each(self) -> Integers:
        """Return (R, R): weights that pick each repetition alone."""
        return np.eye(len(self.repetitions), dtype=np.int64)

    def means(self, weights: Integers) -> Floats:
        """Return (B,): the mean, in µs, for each of B weightings of the repetitions, `weights` (B, R)."""
        return weighted_means(self.sums, self.answered, weights)

    @cached_property
    def sums(self) -> Integers:
        """(R,): the sum of the values of each repetition, in µs."""
        return self.counts @ self.values_us

    def quantiles(self, weights: Integers, q: float) -> Floats:
        """Return (B,): the quantile `q` in µs for each of B weightings of the repetitions, `weights` (B, R).

        Linear between order statistics at 1 + (n − 1) q: definition 7 of Hyndman and Fan (1996), "Sample quantiles in
        statistical packages", The American Statistician 50(4). A weight is the number of times a repetition is taken.
        Infinite where it falls on a lost cycle.
        """
        n = (weights * (self.answered + self.lost)).sum(axis=1)
        position = (n - 1) * q
        rank = np.floor(position).astype(np.int64)
        at, values = self._order_statistics(rank, weights, None)
        _, following = self._order_statistics(np.minimum(rank + 1, n - 1), weights, at)
        part = position - rank
        with np.errstate(invalid="ignore"):
            between = values + (following - values) * part
            return np.where(np.isinf(following), np.where(part > 0, following, values), between)

    def _order_statistics(self, rank: Integers, weights: Integers, least: Integers | None) -> tuple[Integers, Floats]:
        """Return, (B,) each, place in `values_us` (at least `least` (B,)) and value of what `rank` (B,) others precede.

        A binary search over the values, for all B at once.
        """
        counts = weights * self.answered
        lost = rank >= counts.sum(axis=1)
        if lost.all():
            return np.zeros(len(rank), dtype=np.int64), np.full(len(rank), np.inf)
        low, high = self._between((rank[~lost] + 1) / counts[~lost].sum(axis=1))
        lows = np.full(len(rank), low) if least is None else np.maximum(least, low)
        highs = np.maximum(high, lows)
        by_repetition = np.ascontiguousarray(weights.T)
        middles = lows  # mostly the very answer, where `least` is the rank before
        while len(open_ := np.flatnonzero(lows < highs)):
            middle = middles[open_]
            enough = (by_repetition[:, open_] * self.cumulative[:, middle]).sum(axis=0) > rank[open_]
            lows[open_] = np.where(enough, lows[open_], middle + 1)
            highs[open_] = np.where(enough, middle, highs[open_])
            middles = (lows + highs) // 2
        return lows, np.where(lost, np.inf, self.values_us[lows])

    def _between(self, shares: Floats) -> tuple[int, int]:
        """Return first and last place in `values_us` where a mixture of repetitions can reach one of these shares.

        A mixture's quantile lies between the least and the greatest of its parts.
        """
        some = np.flatnonzero(self.answered)
        least, most = (1 - 1e-9) * shares.min(), (1 + 1e-9) * shares.max()
        lows = [np.searchsorted(self.cumulative[i], math.floor(least * self.answered[i])) for i in some]
        highs = [np.searchsorted(self.cumulative[i], math.ceil(most * self.answered[i])) for i in some]
        return int(min(lows)), min(int(max(highs)), len(self.values_us) - 1)


def weighted_means(sums: Integers, counts: Integers, weights: Integers) -> Floats:
    """Return (B,): the mean over repetitions of given sum and count, both (R,), for each of B weightings (B, R)."""
    return np.asarray((weights * sums).sum(axis=1) / (weights * counts).sum(axis=1))


def of_samples(samples_us: Integers) -> Distribution:
    """Return the distribution of samples (R, n) in µs, a row a repetition."""
    repetitions = np.repeat(np.arange(1, len(samples_us) + 1), samples_us.shape[1])
    return of_values(samples_us.ravel(), repetitions, missing=-1)


def of_values(values_us: Integers, repetition: Integers, missing: int) -> Distribution:
    """Return the distribution of samples (N,), each with its repetition (N,), ascending; `missing` is a lost cycle."""
    if not len(repetition):
        return Distribution(repetition, np.zeros((0, 0), dtype=np.int64), repetition, repetition)
    firsts = clusters(repetition)
    parts = [part[part != missing] for part in np.split(values_us, firsts[1:])]
    tallies = [_tally(part) for part in parts]
    distinct = np.unique(np.concatenate([part for part, _ in tallies]))
    counts = np.zeros((len(tallies), len(distinct)), dtype=np.int64)
    for row, (part, count) in zip(counts, tallies, strict=True):
        row[np.searchsorted(distinct, part)] = count
    sizes = np.diff(np.append(firsts, len(values_us)))
    return Distribution(distinct, counts, repetition[firsts], sizes - counts.sum(axis=1))


def clusters(repetition: Integers) -> Integers:
    """Return where each repetition starts in `repetition` (N,), ascending, N > 0.

    Above `CLUSTERS` repetitions, neighbours are taken together: clusters are independent as repetitions are, and so
    many are plenty.
    """
    starts = np.concatenate([[0], np.flatnonzero(np.diff(repetition)) + 1])
    return np.asarray(starts[:: math.ceil(len(starts) / CLUSTERS)])


def _tally(values: Integers) -> tuple[Integers, Integers]:
    """Return the distinct values, ascending, and how often each occurs; counts instead of sorting where possible."""
    if not len(values):
        return values, values
    low = values.min()
    if values.max() - low > WIDE:
        return np.unique(values, return_counts=True)
    counts = np.bincount(values - low)
    at = np.flatnonzero(counts)
    return at + low, counts[at]

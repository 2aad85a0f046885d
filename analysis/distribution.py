# SPDX-License-Identifier: Apache-2.0
"""Latencies of one cell as counts of distinct values by repetition: exact, and small whatever the number of samples.

Latencies are whole microseconds, so ten million samples hold only some thousands of distinct values. Everything that
tables and figures show follows from these counts in integer arithmetic, hence the same bytes each time.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

CLUSTERS = 50
WIDE = 4_000_000


@dataclass(frozen=True)
class Distribution:
    """`values_us` (V,) ascending and distinct; `counts` (R, V): how often each repetition took each value."""

    values_us: Integers
    counts: Integers
    repetitions: Integers

    @property
    def total(self) -> int:
        """The number of samples."""
        return int(self.counts.sum())

    @cached_property
    def cumulative(self) -> Integers:
        """(R, V): samples of each repetition at or below each value."""
        return np.cumsum(self.counts, axis=1)

    @property
    def pooled(self) -> Integers:
        """(V,): samples of all repetitions at or below each value."""
        return np.asarray(self.cumulative.sum(axis=0))

    def each(self) -> Integers:
        """(R, R): weights that pick each repetition alone."""
        return np.eye(len(self.repetitions), dtype=np.int64)

    def means(self, weights: Integers) -> Floats:
        """(B,): the mean, in µs, for each of B weightings of the repetitions, `weights` (B, R)."""
        sums = (self.counts * self.values_us).sum(axis=1)
        return weighted_means(sums, self.counts.sum(axis=1), weights)

    def quantiles(self, weights: Integers, q: float) -> Floats:
        """(B,): the quantile `q` in µs for each of B weightings of the repetitions, `weights` (B, R).

        Linear between order statistics at 1 + (n − 1) q: definition 7 of Hyndman and Fan (1996), "Sample quantiles in
        statistical packages", The American Statistician 50(4). A weight is the number of times a repetition is taken.
        """
        n = (weights * self.counts.sum(axis=1)).sum(axis=1)
        position = (n - 1) * q
        rank = np.floor(position).astype(np.int64)
        low = self._order_statistics(rank, weights)
        high = self._order_statistics(np.minimum(rank + 1, n - 1), weights)
        return np.asarray(low + (high - low) * (position - rank))

    def _order_statistics(self, rank: Integers, weights: Integers) -> Floats:
        """(B,): the value that `rank` (B,) others precede; a binary search over the values, for all B at once."""
        low = np.zeros(len(rank), dtype=np.int64)
        high = np.full(len(rank), len(self.values_us) - 1)
        while np.any(low < high):
            middle = (low + high) // 2
            enough = (weights * self.cumulative[:, middle].T).sum(axis=1) > rank
            low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
        return self.values_us[low].astype(np.float64)


def weighted_means(sums: Integers, counts: Integers, weights: Integers) -> Floats:
    """(B,): the mean over repetitions of given sum and count, both (R,), for each of B weightings (B, R)."""
    return np.asarray((weights * sums).sum(axis=1) / (weights * counts).sum(axis=1))


def of_samples(samples_us: Integers) -> Distribution:
    """From samples (R, n), a row a repetition."""
    repetitions = np.repeat(np.arange(1, len(samples_us) + 1), samples_us.shape[1])
    found = of_values(samples_us.ravel(), repetitions, missing=-1)
    assert found is not None
    return found


def of_values(values_us: Integers, repetition: Integers, missing: int) -> Distribution | None:
    """From samples (N,) and the repetition (N,), ascending, of each; none where every value is `missing`."""
    present = values_us != missing
    values, own = (values_us, repetition) if present.all() else (values_us[present], repetition[present])
    if not len(values):
        return None
    firsts = clusters(own)
    found = [_tally(part) for part in np.split(values, firsts[1:])]
    distinct = np.unique(np.concatenate([part for part, _ in found]))
    counts = np.zeros((len(found), len(distinct)), dtype=np.int64)
    for row, (part, count) in zip(counts, found, strict=True):
        row[np.searchsorted(distinct, part)] = count
    return Distribution(distinct, counts, own[firsts])


def clusters(repetition: Integers) -> Integers:
    """Where each repetition starts in `repetition` (N,), ascending, N > 0.

    Above `CLUSTERS` repetitions, neighbours are taken together: clusters are independent as repetitions are, and so
    many are plenty.
    """
    starts = np.concatenate([[0], np.flatnonzero(np.diff(repetition)) + 1])
    return np.asarray(starts[:: math.ceil(len(starts) / CLUSTERS)])


def _tally(values: Integers) -> tuple[Integers, Integers]:
    """The distinct values, ascending, and how often each is there; by counting where sorting can be spared."""
    low = values.min()
    if values.max() - low > WIDE:
        return np.unique(values, return_counts=True)
    counts = np.bincount(values - low)
    at = np.flatnonzero(counts)
    return at + low, counts[at]

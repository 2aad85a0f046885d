"""Latencies of one cell as counts of distinct values by repetition: exact, and small whatever the number of samples.

Latencies are whole microseconds, so ten million samples hold only some thousands of distinct values. Everything that
tables and figures show follows from these counts in integer arithmetic, hence the same bytes each time.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

Integers = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


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
        return np.asarray((weights * sums).sum(axis=1) / (weights * self.counts.sum(axis=1)).sum(axis=1))

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


def from_rows(rows: pl.DataFrame) -> dict[int, Distribution]:
    """By cell, from (cell, repetition, value, count) in any order."""
    return {int(cell): _of_cell(own) for (cell,), own in rows.partition_by("cell", as_dict=True).items()}


def _of_cell(rows: pl.DataFrame) -> Distribution:
    repetitions, row = np.unique(rows["repetition"].to_numpy(), return_inverse=True)
    values, column = np.unique(rows["value"].to_numpy(), return_inverse=True)
    counts = np.zeros((len(repetitions), len(values)), dtype=np.int64)
    counts[row, column] = rows["count"].to_numpy()
    return Distribution(values, counts, repetitions)


def of_samples(samples_us: Integers) -> Distribution:
    """From samples (R, n), a row a repetition."""
    values = np.unique(samples_us)
    counts = np.stack([np.bincount(np.searchsorted(values, own), minlength=len(values)) for own in samples_us])
    return Distribution(values, counts, np.arange(1, len(samples_us) + 1))

# SPDX-License-Identifier: Apache-2.0
"""What each repetition measured, in the order they ran: drift, and the one that went astray, are seen at once."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from analysis.reading import labels
from analysis.reading.bundle import Bundle, Repetition
from analysis.statistics import cycles
from analysis.statistics.per_cell import PERCENTILES, CellSummary
from analysis.statistics.quantity import RECOVERY, Quantity

ROWS = 24
"""The most cells shown: more are told, not drawn."""
STATES = {"valid": "quiet", "noisy": "noisy, counted", "aside": "set aside"}
"""States in words, for the key; a dot whose value is infinite is `InOrder.cut` whatever its state."""


@dataclass(frozen=True)
class Dot:
    """A repetition: its place in the run's order, and its value in µs, infinite where there is none.

    `state` is `valid`, `noisy` (counted all the same) or `aside` (superseded by a re-run, refused, or broken off).
    """

    order: int
    value_us: float
    state: str
    lost: int


@dataclass(frozen=True)
class Row:
    """The repetitions of one cell."""

    label: str
    dots: tuple[Dot, ...]


@dataclass(frozen=True)
class InOrder:
    """Rows on one axis of latency (µs) and one of the order of running, 0 to `last`."""

    quantity: Quantity
    rows: tuple[Row, ...]
    last: int
    left_out: int

    @property
    def reach_us(self) -> tuple[float, float]:
        """The lowest and the highest finite value."""
        values = [dot.value_us for row in self.rows for dot in row.dots if math.isfinite(dot.value_us)]
        return (min(values), max(values)) if values else (0.0, 1.0)

    @property
    def name(self) -> str:
        """What a dot stands for."""
        return "recovery time" if self.quantity.metric == RECOVERY else self.quantity.name

    @property
    def cut(self) -> str:
        """What an infinite value is, in words."""
        return "never recovered" if self.quantity.metric == RECOVERY else "cut by losses"

    @property
    def states(self) -> set[str]:
        """The states that occur, for the key."""
        return {"lost" if math.isinf(dot.value_us) else dot.state for row in self.rows for dot in row.dots}


def in_order(bundle: Bundle, summaries: Sequence[CellSummary], quantity: Quantity) -> InOrder:
    """Return each cell's repetitions; the median round trip stands in where `quantity` is no quantile of a time."""
    drawn = quantity.statistic in PERCENTILES and quantity.is_time
    chosen = quantity if drawn else Quantity(bundle.round_trip, "p50")
    names = labels.of_cells(bundle.cells)
    aside = _aside(bundle, chosen)
    rows = tuple(Row(names[s.cell.index], tuple(_dots(bundle, s, chosen, aside))) for s in summaries[:ROWS])
    last = max((r.order for r in bundle.repetitions), default=0)
    shown = tuple(row for row in rows if row.dots)
    return InOrder(chosen, shown, last, len(summaries) - len(rows))


def _dots(
    bundle: Bundle, summary: CellSummary, quantity: Quantity, aside: Mapping[tuple[int, int], float]
) -> Iterator[Dot]:
    ran = {r.repetition: r for r in bundle.repetitions if r.cell == summary.cell.index}
    distribution = summary.distributions.get(quantity.metric)
    numbers = distribution.repetitions.tolist() if distribution else []
    values = (
        distribution.quantiles(distribution.each(), PERCENTILES[quantity.statistic]).tolist() if distribution else []
    )
    measured = dict(zip(numbers, values, strict=True))
    for number, repetition in sorted(ran.items(), key=lambda entry: entry[1].order):
        if not repetition.counts["offered"]:
            continue  # it ended before its first cycle: nothing was measured, and nothing lost
        if quantity.metric == RECOVERY and number not in measured:
            continue  # set aside, or one of the neighbours that are taken together
        value = measured.get(number, aside.get((summary.cell.index, number)))
        if value is None and repetition.counted and len(ran) > len(measured) > 0 and not _silent(repetition):
            continue  # one of the neighbours that are taken together
        yield Dot(repetition.order, math.inf if value is None else value, _state(repetition), repetition.counts["lost"])


def _silent(repetition: Repetition) -> bool:
    return repetition.counts["lost"] == repetition.counts["offered"]


def _state(repetition: Repetition) -> str:
    return ("noisy" if repetition.validity == "noisy" else "valid") if repetition.counted else "aside"


def _aside(bundle: Bundle, quantity: Quantity) -> dict[tuple[int, int], float]:
    """Return, by cell and repetition, the value in µs of those that are not counted; lost cycles rank last."""
    by_repetition: dict[tuple[int, int], float] = {}
    if quantity.metric == RECOVERY:
        return by_repetition
    latency_us = cycles.latencies_us(bundle.family)[quantity.metric]
    for repetition in (r for r in bundle.repetitions if not r.counted and r.counts["offered"]):
        rows = bundle.rows.of(repetition.cell, {repetition.repetition}).filter(pl.col("status") != "duplicate")
        values = rows.select(latency_us.cast(pl.Float64).fill_null(math.inf)).to_series()
        value = values.quantile(PERCENTILES[quantity.statistic], "higher")
        if value is not None:
            by_repetition[repetition.cell, repetition.repetition] = value
    return by_repetition

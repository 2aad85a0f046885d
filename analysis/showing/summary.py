# SPDX-License-Identifier: Apache-2.0
"""`summary.csv`: every statistic of every cell, as docs/bundle.md specifies it."""

import csv
import io
import math
from collections.abc import Iterator, Sequence

from analysis.reading.family import Axis
from analysis.statistics.estimate import Estimate
from analysis.statistics.per_cell import CellSummary
from analysis.statistics.quantity import RECOVERY

COLUMNS = ("metric", "statistic", "value_us", "count", "confidence_low", "confidence_high")
"""After scenario and axes."""


def render(summaries: Sequence[CellSummary], axes: Sequence[Axis]) -> str:
    """Return the text of summary.csv; the column `arm` comes last, only where there are arms."""
    columns = ["scenario", *(axis.name for axis in axes), *COLUMNS]
    arms = any(summary.cell.arm for summary in summaries)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*columns, "arm"] if arms else columns)
    for summary in summaries:
        for row in _rows(summary):
            writer.writerow([*row, summary.cell.arm] if arms else row)
    return text.getvalue()


def _rows(summary: CellSummary) -> Iterator[list[object]]:
    cell = summary.cell
    for metric, estimates in summary.estimates.items():
        distribution = summary.distributions[metric]
        count = distribution.offered if metric == RECOVERY else distribution.total
        for statistic, estimate in estimates.items():
            yield [cell.scenario, *cell.values, metric, statistic, *_values(estimate, count)]
    for quantity, interval in summary.outcomes.items():
        values = (number(interval.value), summary.counts.offered, number(interval.low), number(interval.high))
        yield [cell.scenario, *cell.values, quantity.metric, quantity.statistic, *values]


def _values(estimate: Estimate, count: int) -> list[object]:
    return [microseconds(estimate.value_us), count, microseconds(estimate.low_us), microseconds(estimate.high_us)]


def microseconds(value: float | None) -> str:
    """Return µs to two decimals at most, as in the thesis; empty where there is no value, or losses leave no bound."""
    return "" if value is None or math.isinf(value) else f"{value:.2f}".rstrip("0").rstrip(".")


def number(value: float | None) -> str:
    """Return a share or a burst to six digits; empty where there is none."""
    return "" if value is None else f"{value:.6g}"

# SPDX-License-Identifier: Apache-2.0
"""`summary.csv`: every statistic of every cell, as docs/bundle.md specifies it."""

import csv
import io
from collections.abc import Iterator, Sequence

from analysis.statistics import CellSummary, Estimate

COLUMNS = (
    "scenario",
    "interval_ms",
    "qos",
    "metric",
    "statistic",
    "value_us",
    "count",
    "confidence_low",
    "confidence_high",
)


def render(summaries: Sequence[CellSummary]) -> str:
    """The file's text; the column `arm` comes last, only where there are arms."""
    arms = any(summary.cell.arm for summary in summaries)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*COLUMNS, "arm"] if arms else COLUMNS)
    for summary in summaries:
        for row in _rows(summary):
            writer.writerow([*row, summary.cell.arm] if arms else row)
    return text.getvalue()


def _rows(summary: CellSummary) -> Iterator[list[object]]:
    cell = summary.cell
    for metric, estimates in summary.estimates.items():
        count = summary.distributions[metric].total
        for statistic, estimate in estimates.items():
            yield [cell.scenario, cell.interval_ms, cell.qos, metric, statistic, *_values(estimate, count)]


def _values(estimate: Estimate, count: int) -> list[object]:
    return [microseconds(estimate.value_us), count, microseconds(estimate.low_us), microseconds(estimate.high_us)]


def microseconds(value: float | None) -> str:
    """Two decimals at most, as the thesis prints them; empty where there is no value."""
    return "" if value is None else f"{value:.2f}".rstrip("0").rstrip(".")

# SPDX-License-Identifier: Apache-2.0
"""The table of a bundle, as grids for terminal, file and page: ours above the thesis', in ms."""

import math
from collections.abc import Iterator, Sequence

from analysis.judging.compare import Claim
from analysis.judging.grid import Grid
from analysis.reading.family import Value
from analysis.showing.control import thesis
from analysis.showing.forest import MARKS, Panel
from analysis.statistics.estimate import Estimate
from analysis.statistics.per_cell import CellSummary

STATISTICS = ("min", "avg", "p50", "p90", "p99", "p99.9", "max", "jitter")
COUNTS = ("offered", "ok", "late", "lost", "duplicate", "reordered")
THESIS = "thesis"


def latencies(summaries: Sequence[CellSummary], *, intervals: bool) -> Grid:
    """Return a row a cell and metric, the thesis' figures once for the same conditions; `intervals` adds 95 % ones."""
    shown: set[tuple[Value, ...]] = set()
    rows: list[tuple[str, ...]] = []
    for summary in summaries:
        conditions = (summary.cell.scenario, *summary.cell.values)
        for metric in summary.cell.family.by_name:
            rows += _metric_rows(summary, metric, intervals=intervals, beside_thesis=conditions not in shown)
        shown.add(conditions)
    return _of_cells("Latency in ms", summaries, ("metric", "n", *STATISTICS), rows)


def counts(summaries: Sequence[CellSummary]) -> Grid:
    """Return cycles offered, answered and lost, a row a cell."""
    rows = [
        (*_cell(summary), str(summary.repetitions), *(f"{getattr(summary.counts, name):,}" for name in COUNTS))
        for summary in summaries
    ]
    return _of_cells("Cycles", summaries, ("repetitions", *COUNTS), rows)


def deadlines(summaries: Sequence[CellSummary]) -> Grid:
    """Return cycles without an answer by their deadline, from the intended time, and the most of them in a row."""
    rows = [
        (*_cell(s), f"{s.misses.deadline_ms} ms", f"{s.misses.count:,}", _percent(s), str(s.misses.longest_burst))
        for s in summaries
    ]
    return _of_cells("Deadlines", summaries, ("deadline", "missed", "share", "most in a row"), rows)


def _of_cells(
    title: str, summaries: Sequence[CellSummary], columns: Sequence[str], rows: Sequence[tuple[str, ...]]
) -> Grid:
    """Return a table whose rows begin with a cell and one more label."""
    axes = summaries[0].cell.family.axes if summaries else ()
    header = ("scenario", "arm", *(axis.heading for axis in axes), *columns)
    return _drop_empty(Grid(title, header, 3 + len(axes), tuple(rows)))


def of_cells(summaries: Sequence[CellSummary]) -> tuple[Grid, ...]:
    """Return latencies, cycles and deadlines without intervals, for a terminal."""
    return latencies(summaries, intervals=False), counts(summaries), deadlines(summaries)


def claims(tested: Sequence[Claim]) -> Grid:
    """Return B − A, statistic by statistic, with the verdicts."""
    rows = tuple(
        (
            _pair(claim),
            claim.metric,
            claim.quantity.column,
            claim.quantity.figure(claim.a),
            claim.quantity.figure(claim.b),
            claim.quantity.figure(claim.difference, signed=True),
            claim.quantity.bounds(claim.low, claim.high),
            f"{claim.percent[0]:+.1f} %" if claim.percent else "",
            f"{claim.cliffs_delta:+.2f}",
            claim.words,
        )
        for claim in tested
    )
    header = ("cell", "metric", "", "A", "B", "B − A", "95 % interval", "change", "Cliff's δ", "B")
    return Grid("B against A", header, 3, rows)


def _pair(claim: Claim) -> str:
    a, b = claim.cells
    return " → ".join(dict.fromkeys(", ".join(cell.texts) for cell in (a, b)))


def faults(summaries: Sequence[CellSummary]) -> tuple[str, ...]:
    """Return a line for each published figure beside ours that contradicts itself."""
    lines = {
        f"{thesis.FAULTY} {words}"
        for s in summaries
        for metric in s.cell.family.by_name
        for statistic in STATISTICS
        if (words := thesis.fault(s.cell, metric, statistic))
    }
    return tuple(sorted(lines))


def differences(panel: Panel) -> Grid:
    """Return one panel of the forest plot in figures."""
    rows = tuple((row.label, f"{MARKS[row.kind]} {row.verdict}", row.amount) for row in panel.rows)
    title = panel.title[0].upper() + panel.title[1:]
    return Grid(f"{title} (less is better)", ("", "verdict", "difference [95 %]"), 2, rows)


def _cell(summary: CellSummary) -> tuple[str, ...]:
    return summary.cell.scenario, summary.cell.arm, *summary.cell.entries


def _metric_rows(
    summary: CellSummary, metric: str, *, intervals: bool, beside_thesis: bool
) -> Iterator[tuple[str, ...]]:
    estimates = summary.estimates.get(metric)
    if estimates is None:
        return
    cut = summary.cut[metric]
    values = ("lost" if name in cut else _estimate(estimates.get(name), intervals=intervals) for name in STATISTICS)
    yield *_cell(summary), metric, f"{summary.distributions[metric].total:,}", *values
    figures = [thesis.published(summary.cell, metric, name) for name in STATISTICS]
    if any(figures) and beside_thesis:
        yield *_cell(summary), THESIS, "", *(_published(figure) for figure in figures)


def _estimate(estimate: Estimate | None, *, intervals: bool) -> str:
    if estimate is None:
        return ""
    value = milliseconds(estimate.value_us)
    if not intervals or estimate.low_us is None or estimate.high_us is None:
        return value
    high = "∞" if math.isinf(estimate.high_us) else milliseconds(estimate.high_us)
    return f"{value} [{milliseconds(estimate.low_us)}, {high}]"


def _published(figure: thesis.Published | None) -> str:
    return "" if figure is None else milliseconds(figure.value_us) + (thesis.FAULTY if figure.fault else "")


def _percent(summary: CellSummary) -> str:
    return f"{summary.misses.count / summary.counts.offered:.2%}" if summary.counts.offered else ""


def milliseconds(value_us: float) -> str:
    """Return µs as ms, to the µs."""
    return f"{value_us / 1000:.3f}"


def _drop_empty(grid: Grid) -> Grid:
    """Return the table without columns that are empty in every row, such as `arm` where there are no arms."""
    keep = [i for i in range(len(grid.header)) if any(row[i] for row in grid.rows) or not grid.rows]
    labels = sum(i < grid.labels for i in keep)
    rows = tuple(tuple(row[i] for i in keep) for row in grid.rows)
    return Grid(grid.title, tuple(grid.header[i] for i in keep), labels, rows)

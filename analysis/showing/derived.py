# SPDX-License-Identifier: Apache-2.0
"""The files that analysis adds to a bundle, any number of times, the same bytes each time."""

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from analysis.judging import answer, assertions, checks, warnings
from analysis.judging.answer import Answer
from analysis.judging.grid import markdown
from analysis.reading import checksums, files
from analysis.reading.bundle import Bundle
from analysis.showing import (
    answer_figures,
    conditions,
    figures,
    recovery_figure,
    recovery_table,
    report,
    summary,
    tables,
)
from analysis.statistics import recovery
from analysis.statistics.per_cell import CellSummary

FIGURES = "figures"
SUMS = "derived.SHA256SUMS"
REPORT = "report.html"
RECOVERY = "recovery.csv"
ASSERTIONS = ("assert.json", "assert.md", "assert.xml")
FILES = ("summary.csv", "table.md", RECOVERY, *ASSERTIONS, REPORT)


@dataclass(frozen=True)
class Written:
    """The answer that was written, and what the figures leave out, empty where all are drawn."""

    answer: Answer
    left_out: str


def write(bundle: Bundle, summaries: Sequence[CellSummary], target: Path) -> Written:
    """Write summary.csv, table.md, report.html, figures/ and their checksums to `target`, in place of earlier ones."""
    files.require_plain(target)
    recoveries = recovery.of(bundle)
    files.write_text(target / "summary.csv", summary.render(summaries, bundle.axes))
    files.write_text(target / "table.md", table(bundle, summaries, recoveries))
    if recoveries:
        files.write_text(target / RECOVERY, recovery.render(recoveries))
    run_answer = answer.of(bundle, summaries)
    files.write_text(target / REPORT, report.render(bundle, summaries, run_answer))
    if asserted := assertions.judge(bundle, summaries):
        checks.write(asserted, target, "assert")
    drawn = files.fresh_folder(target / FIGURES)
    plots, left_out = figures.chosen(
        list(figures.of_bundle(bundle, summaries)), bundle.family, run_answer.question.headlines
    )
    for plot in plots:
        figures.save(plot, drawn)
    recovery_figure.save(bundle, recoveries, drawn)
    answer_figures.save(bundle, summaries, run_answer, drawn)
    files.replace_folder(drawn, target / FIGURES)
    checksums.write(target, SUMS, names(target))
    return Written(run_answer, left_out)


def names(folder: Path) -> list[str]:
    """Return the derived files in `folder`, relative to it."""
    paths = [folder / name for name in FILES] + sorted((folder / FIGURES).glob("*"))
    return [path.relative_to(folder).as_posix() for path in paths if path.is_file()]


def versions() -> str:
    """Return the versions of the packages that the bytes of figures depend on."""
    return ", ".join(f"{name} {version(name)}" for name in ("matplotlib", "numpy", "scipy"))


def table(bundle: Bundle, summaries: Sequence[CellSummary], recoveries: Sequence[recovery.Summary] = ()) -> str:
    """Return the text of table.md; recoveries stand first, where something broke."""
    grids = [tables.latencies(summaries, intervals=True), tables.counts(summaries), tables.deadlines(summaries)]
    grids = [recovery_table.table(recoveries), *grids] if recoveries else grids
    lists = {"Published figures": tables.faults(summaries), "Warnings": _warnings(bundle, summaries)}
    parts = [f"# {bundle.name}\n", _list(conditions_of(bundle)), *(markdown(grid) for grid in grids)]
    parts += [f"## {title}\n\n{_list(lines)}" for title, lines in lists.items() if lines]
    return "\n".join(parts)


def conditions_of(bundle: Bundle) -> list[str]:
    """Return what was run and on what, in two lines, then notices and arms left out."""
    lines = [" · ".join(conditions.of_cells(bundle.cells)), " · ".join(conditions.of_run(bundle))]
    arms = {cell.arm for cell in bundle.cells}
    left_out = [
        f"arm {entry['arm']} was left out{' in part' if entry['arm'] in arms else ''}: {entry['reason']}"
        for entry in bundle.plan.get("left_out", [])
    ]
    return [*lines, *conditions.notices(bundle), *left_out]


def _warnings(bundle: Bundle, summaries: Sequence[CellSummary]) -> list[str]:
    return [caution.line for caution in warnings.of(bundle, summaries)]


def _list(lines: Sequence[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)

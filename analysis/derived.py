"""The files that analysis adds to a bundle, any number of times, the same bytes each time."""

from collections.abc import Sequence
from pathlib import Path

from analysis import conditions, figures, summary, tables, warnings
from analysis.bundle import Bundle
from analysis.statistics import CellSummary

FIGURES = "figures"


def write_summary(bundle: Bundle, summaries: Sequence[CellSummary], folder: Path | None = None) -> None:
    """summary.csv, table.md and figures/, into the bundle or into `folder`."""
    target = folder or bundle.folder
    (target / "summary.csv").write_text(summary.render(summaries), encoding="utf-8")
    (target / "table.md").write_text(table(bundle, summaries), encoding="utf-8")
    for plot in figures.of_bundle(bundle, summaries):
        figures.save(plot, target / FIGURES)


def table(bundle: Bundle, summaries: Sequence[CellSummary]) -> str:
    """The text of table.md."""
    faults = "".join(f"{line}\n" for line in tables.faults(summaries))
    parts = [
        f"# {bundle.name}\n",
        "\n".join(f"- {line}" for line in conditions_of(bundle)) + "\n",
        tables.markdown(tables.latencies(summaries, intervals=True)),
        tables.markdown(tables.counts(summaries)),
        tables.markdown(tables.deadlines(summaries)),
        *([faults] if faults else []),
        *_warnings(bundle, summaries),
    ]
    return "\n".join(parts)


def conditions_of(bundle: Bundle) -> list[str]:
    """What was run and on what, in two lines, and what must be said of it."""
    lines = [" · ".join(conditions.of_cells(bundle.cells)), " · ".join(conditions.of_run(bundle))]
    return [*lines, *conditions.notices(bundle)]


def _warnings(bundle: Bundle, summaries: Sequence[CellSummary]) -> list[str]:
    lines = [f"- {caution.line}" for caution in warnings.of(bundle, summaries)]
    return ["## Warnings\n", "\n".join(lines) + "\n"] if lines else []

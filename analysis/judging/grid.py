# SPDX-License-Identifier: Apache-2.0
"""A table before it is drawn, for a terminal, a file or a page."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Grid:
    """A table before it is drawn: the first `labels` columns are labels, numbers follow."""

    title: str
    header: tuple[str, ...]
    labels: int
    rows: tuple[tuple[str, ...], ...]


def markdown(grid: Grid) -> str:
    """Return the table in Markdown, under its title."""
    rule = ["---"] * grid.labels + ["--:"] * (len(grid.header) - grid.labels)
    lines = [f"## {grid.title}", "", _pipe(grid.header), _pipe(rule), *(_pipe(row) for row in grid.rows)]
    return "\n".join(lines) + "\n"


def without(grid: Grid, names: Collection[str]) -> Grid:
    """Return the table without the columns of these names."""
    keep = [i for i, name in enumerate(grid.header) if name not in names]
    rows = tuple(tuple(row[i] for i in keep) for row in grid.rows)
    return Grid(grid.title, tuple(grid.header[i] for i in keep), sum(i < grid.labels for i in keep), rows)


def compact(grid: Grid) -> Grid:
    """Move labels that all rows share to the title, and blank those repeated from the row above, but for the last."""
    names = grid.labels - 1
    shared = [i for i in range(names) if len({row[i] for row in grid.rows}) == 1]
    keep = [i for i in range(len(grid.header)) if i not in shared]
    title = ", ".join([grid.title, *(f"{grid.header[i]} {grid.rows[0][i]}" for i in shared)])
    rows = []
    for above, row in zip(((), *grid.rows), grid.rows, strict=False):
        repeats = above[:names] == row[:names]
        rows.append(tuple("" if repeats and i < names else row[i] for i in keep))
    return Grid(title, tuple(grid.header[i] for i in keep), grid.labels - len(shared), tuple(rows))


def _pipe(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

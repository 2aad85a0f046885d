# SPDX-License-Identifier: Apache-2.0
"""What a command prints: sentences and tables no wider than the terminal, colour only where there is one."""

from collections.abc import Iterable, Iterator

from rich import box
from rich.table import Table

from analysis.judging.grid import Grid, compact
from analysis.showing.tables import THESIS
from schema.text import Terminal

PIPE = 120
"""The width of lines where nobody says how wide they are."""


def terminal() -> Terminal:
    """Return a console as wide as the terminal; in a pipe 120 columns wide, without colour."""
    console = Terminal(markup=False, highlight=False)
    return console if console.is_terminal else Terminal(markup=False, highlight=False, width=PIPE)


def say(console: Terminal, lines: Iterable[str], style: str | None = None) -> None:
    """Print each line, wrapped at words."""
    for line in lines:
        console.print(line, style=style)


def show(grid: Grid, console: Terminal) -> None:
    """Print the table, compact; one that is too wide is split into several beneath each other, and no figure is cut."""
    if not grid.rows:
        return
    for part in _fitting(compact(grid), console.width):
        console.print(_table(part))


def _fitting(grid: Grid, width: int) -> Iterator[Grid]:
    widths = [max(map(len, column)) for column in zip(grid.header, *grid.rows, strict=True)]
    labels = sum(label_width + _GAP for label_width in widths[: grid.labels])
    parts: list[list[int]] = [[]]
    room = width - labels
    for i in range(grid.labels, len(grid.header)):
        if parts[-1] and room < widths[i] + _GAP:
            parts.append([])
            room = width - labels
        parts[-1].append(i)
        room -= widths[i] + _GAP
    for number, columns in enumerate(parts):
        keep = [*range(grid.labels), *columns]
        rows = tuple(tuple(row[i] for i in keep) for row in grid.rows)
        title = f"{grid.title}, continued" if number else grid.title
        yield Grid(title, tuple(grid.header[i] for i in keep), grid.labels, rows)


_GAP = 2


def _table(grid: Grid) -> Table:
    table = Table(
        title=grid.title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold", pad_edge=False,
        collapse_padding=True, padding=(0, 1),
    )  # fmt: skip
    for i, name in enumerate(grid.header):
        table.add_column(
            name, justify="left" if i < grid.labels else "right", no_wrap=i >= grid.labels, overflow="fold"
        )
    for row in grid.rows:
        table.add_row(*row, style="dim" if THESIS in row else None)
    return table

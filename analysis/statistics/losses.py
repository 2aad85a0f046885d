# SPDX-License-Identifier: Apache-2.0
"""Losses of every repetition that ran, counted or not: what a re-run superseded stays in sight."""

from dataclasses import dataclass

from analysis.reading.bundle import Bundle, Cell, Repetition
from analysis.statistics.quantity import plural


@dataclass(frozen=True)
class Losses:
    """Cycles lost of those offered in a cell: in counted repetitions, and in those that no statistic counts.

    `silent` counted repetitions answered nothing; those `set_aside` ran, but were superseded, refused, or broke off.
    """

    cell: Cell
    lost: int
    offered: int
    silent: int
    repetitions: int
    set_aside: int
    set_aside_lost: int
    set_aside_offered: int

    @property
    def text(self) -> str:
        """The losses in a sentence."""
        words = f"{self.lost:,} of {self.offered:,} cycles were lost" if self.lost else f"None of {self.offered:,} lost"
        words += f", {self.silent} of {plural(self.repetitions, 'repetition')} answered nothing" if self.silent else ""
        if self.set_aside_lost:
            words += (
                f"; {self.set_aside_lost:,} of {self.set_aside_offered:,} more in "
                f"{plural(self.set_aside, 'repetition')} set aside"
            )
        return f"{words}."


def of(bundle: Bundle) -> tuple[Losses, ...]:
    """Return the losses of each cell that has run at all, in the plan's order."""
    ran = {cell.index: [r for r in bundle.repetitions if r.cell == cell.index] for cell in bundle.cells}
    return tuple(_of_cell(cell, ran[cell.index]) for cell in bundle.cells if ran[cell.index])


def _of_cell(cell: Cell, ran: list[Repetition]) -> Losses:
    counted, others = [r for r in ran if r.counted], [r for r in ran if not r.counted]
    return Losses(
        cell=cell,
        lost=sum(r.counts["lost"] for r in counted),
        offered=sum(r.counts["offered"] for r in counted),
        silent=sum(r.counts["lost"] == r.counts["offered"] > 0 for r in counted),
        repetitions=len(counted),
        set_aside=len(others),
        set_aside_lost=sum(r.counts["lost"] for r in others),
        set_aside_offered=sum(r.counts["offered"] for r in others),
    )

# SPDX-License-Identifier: Apache-2.0
"""What a person sees while a run measures: a bar with running quantiles and an ETA; in a pipe, nothing."""

from __future__ import annotations

import bisect
import itertools
from collections import Counter, defaultdict
from types import TracebackType
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from experiments.cells import Cell
from experiments.plan import Plan

STEP_US = 10
"""What a running quantile is told to: answers are counted by steps of it, not kept and sorted at each report."""


class RunProgress:
    """Shows the repetitions of a plan going by. Redraws only when told something: a timer would disturb the run."""

    def __init__(self, plan: Plan, console: Console) -> None:
        self._plan = plan
        self._left_s = sum(plan.scheduled_s(plan.cells[cell]) for cell, _ in plan.order())
        self._between_s = 0.5  # what a repetition costs beyond its schedule; learnt as it goes
        self._left = len(plan.order())
        self._answers: dict[Cell, Counter[int]] = defaultdict(Counter)
        self._bar = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(None),
            MofNCompleteColumn(),
            TextColumn("{task.fields[cell]}", markup=False),
            TextColumn("[magenta]{task.fields[width]}"),
            TextColumn("[cyan]{task.fields[running]}"),
            TimeElapsedColumn(),
            TextColumn("{task.fields[eta]}"),
            console=console,
            auto_refresh=False,
            expand=True,
            disable=not console.is_terminal,
        )  # fmt: skip
        self._task = self._bar.add_task(plan.name, total=self._left, cell="", width="", running="", eta="")

    def __enter__(self) -> RunProgress:
        self._bar.start()
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def begin(self, cell: Cell) -> None:
        """A repetition of this cell starts."""
        self._show(cell)

    def samples(self, cell: Cell, t_us: list[int]) -> None:
        """Answers came in."""
        if self._bar.disable:
            return
        self._answers[cell].update(t // STEP_US for t in t_us)
        self._show(cell)

    def end(self, cell: Cell, took_s: float) -> None:
        """A repetition is over."""
        self._left -= 1
        self._left_s -= self._plan.scheduled_s(cell)
        self._between_s += (max(0.0, took_s - self._plan.scheduled_s(cell)) - self._between_s) / 4
        self._bar.advance(self._task)
        self._show(cell)

    def looked(self, seen: dict[str, Any]) -> None:
        """A look said this: a line that stays, and the interval's width beside the bar as it closes in."""
        line = f"testbed: after {seen['repetitions']} repetitions: {seen['reason']}"
        self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        width = seen.get("half_width_percent")
        self._bar.update(
            self._task, width="" if width is None else f"± {width:.3g} → {self._plan.settings.precision:g} %"
        )

    def _show(self, cell: Cell) -> None:
        if self._bar.disable:
            return
        left_s = round(max(0.0, self._left_s + self._left * self._between_s))
        self._bar.update(
            self._task, cell=cell.describe(), running=_running(self._plan.family.metrics[0].name, self._answers[cell]),
            eta=f"{left_s // 60}:{left_s % 60:02} left", refresh=True,
        )  # fmt: skip


def _running(name: str, answers: Counter[int]) -> str:
    """Median and 99th percentile of the round trip so far, from the number of answers by steps of it."""
    total = answers.total()
    if not total:
        return ""
    steps = sorted(answers)
    below = list(itertools.accumulate(answers[step] for step in steps))
    p50, p99 = (steps[bisect.bisect_right(below, total * percent // 100)] * STEP_US for percent in (50, 99))
    return f"{name} p50 {p50 / 1000:.2f} p99 {p99 / 1000:.2f} ms"

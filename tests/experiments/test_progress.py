# SPDX-License-Identifier: Apache-2.0
"""The running quantiles of a run's progress, and that they cost nothing where nobody watches."""

from __future__ import annotations

from collections import Counter
from io import StringIO

import pytest
from rich.console import Console

from experiments import plan, progress
from experiments.progress import RunProgress
from experiments.variables import Settings


@pytest.mark.parametrize("count", [1, 2, 99, 100, 1000])
def test_running_quantiles_are_those_of_the_answers_to_the_step(count: int) -> None:
    t_us = [(7919 * i) % 10_007 + 500 for i in range(count)]
    ordered = sorted(t_us)
    p50, p99 = ordered[count * 50 // 100], ordered[count * 99 // 100]
    steps = Counter(t // progress.STEP_US for t in t_us)
    wanted = f"T p50 {p50 // 10 / 100:.2f} p99 {p99 // 10 / 100:.2f} ms"
    assert progress._running("T", steps) == wanted


def test_nothing_is_kept_where_nobody_watches() -> None:
    planned = plan.of_scenario("1", Settings.parse({"INTERVALS": "20"}), "0123abcd")
    shown = RunProgress(planned, Console(file=StringIO()))
    shown.begin(planned.cells[0])
    shown.samples(planned.cells[0], [1000] * 500)
    assert not shown._answers

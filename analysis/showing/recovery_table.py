# SPDX-License-Identifier: Apache-2.0
"""The table of recoveries: a row a cell, its fault, how long the loop was without answers and what that cost."""

import math
from collections.abc import Collection

from analysis.judging.grid import Grid, without
from analysis.showing.tables import milliseconds
from analysis.statistics.estimate import Estimate
from analysis.statistics.recovery import UNBROKEN, Summary


def table(summaries: Collection[Summary]) -> Grid:
    """Return a row a cell: recovery in ms, and cycles a repetition."""
    axes = [axis.heading for summary in [*summaries][:1] for axis in summary.cell.family.axes]
    labels = ("arm", *axes, "session", "fault")
    header = (*labels, "repetitions", "recovery, ms", "fastest", "slowest", "never", "lost", "late", "duplicate")
    rows = tuple(
        (
            s.cell.arm,
            *s.cell.entries,
            s.cell.session,
            s.fault,
            str(len(s.recoveries)),
            _time(s.median),
            *_extremes(s),
            str(s.never),
            _cycles(s.lost),
            _cycles(s.late),
            _cycles(s.duplicate),
        )
        for s in summaries
    )
    title = f"Recovery: from the fault to the first answer of {UNBROKEN} in a row, and cycles a repetition"
    grid = Grid(title, header, len(labels), rows)
    return without(grid, ["arm"]) if all(s.cell.arm in {"", s.fault} for s in summaries) else grid


def _extremes(summary: Summary) -> tuple[str, str]:
    times = [r.recovery_us for r in summary.recoveries if r.recovery_us is not None]
    slowest = f"> {_watched(summary)}" if summary.never else milliseconds(max(times))
    return milliseconds(min(times)) if times else "", slowest


def _watched(summary: Summary) -> str:
    return milliseconds(min(r.watched_us for r in summary.recoveries if r.recovery_us is None))


def _time(estimate: Estimate) -> str:
    value = _or_never(estimate.value_us)
    if estimate.low_us is None or estimate.high_us is None:
        return value
    return f"{value} [{_or_never(estimate.low_us)}, {_or_never(estimate.high_us)}]"


def _or_never(value_us: float) -> str:
    return "never" if math.isinf(value_us) else milliseconds(value_us)


def _cycles(estimate: Estimate) -> str:
    value = f"{estimate.value_us:.1f}"
    if estimate.low_us is None or estimate.high_us is None or estimate.low_us == estimate.high_us:
        return value
    return f"{value} [{estimate.low_us:.1f}, {estimate.high_us:.1f}]"

# SPDX-License-Identifier: Apache-2.0
"""What a fault cost the loop: how long until it answered again, and the cycles it took meanwhile.

Recovery time runs from the moment just before the fault was brought about to the answer of the first cycle that begins
an unbroken row of `UNBROKEN` answered ones, among the cycles due after the fault was read back as in force. It cannot
be shorter than it takes to the next cycle's answer: up to one interval and a round trip. A repetition without such a
row is censored: its recovery took longer than it was watched. It is counted, shown, and ranks behind every recovery in
the median.
"""

import csv
import io
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import special

from analysis.reading import labels
from analysis.reading.arrays import Floats, Integers
from analysis.reading.bundle import Bundle, Cell, Fault, Repetition
from analysis.statistics import bootstrap, medians, sequential
from analysis.statistics.cycles import MISSING
from analysis.statistics.distribution import Distribution, of_values
from analysis.statistics.estimate import Estimate

UNBROKEN = 10
"""Answered cycles in a row after which the loop counts as recovered."""

FEW = 4
"""Cells of which the sentence tells each; of more it would be a table without lines."""
AT_NS = pl.col("intended_ns") + 1000 * pl.col("late_us").cast(pl.Int64).fill_null(0)
COLUMNS = ("repetition", "fault", "recovery_us", "watched_us", "lost", "late", "duplicate")
"""Of recovery.csv, after order, arm and the axes."""


@dataclass(frozen=True)
class Cycles:
    """N cycles of one repetition in order, each (N,), ns; `MISSING` where there was no answer.

    `at_ns` is when a cycle was sent, to the µs, or was due where it was not; `duplicates_ns` (D,) when second answers
    arrived.
    """

    at_ns: Integers
    received_ns: Integers
    status: npt.NDArray[np.str_]
    duplicates_ns: Integers


@dataclass(frozen=True)
class Recovery:
    """The recovery of a repetition; `recovery_us` is None if it did not recover in `watched_us`, from fault to end.

    `lost` and `late` are the cycles under way at the fault or due from then on, until the loop recovered; `duplicate`
    counts second answers that arrived after the fault.
    """

    cell: Cell
    repetition: int
    order: int
    fault: Fault
    recovery_us: int | None
    watched_us: int
    lost: int
    late: int
    duplicate: int


@dataclass(frozen=True)
class Summary:
    """The recoveries of a cell's counted repetitions; `median` is `math.inf` where half of them or more never did."""

    cell: Cell
    recoveries: tuple[Recovery, ...]
    median: Estimate
    lost: Estimate
    late: Estimate
    duplicate: Estimate
    never: int

    @property
    def fault(self) -> str:
        """The kind of fault."""
        return self.recoveries[0].fault.kind


def of(bundle: Bundle) -> tuple[Summary, ...]:
    """Return a summary for every cell with a fault in a counted repetition, in the plan's order."""
    confidence = sequential.confidence(bundle)
    by_cell = ((cell, of_cell(bundle, cell)) for cell in bundle.cells)
    return tuple(_summary(cell, recoveries, confidence) for cell, recoveries in by_cell if recoveries)


def of_cell(bundle: Bundle, cell: Cell) -> tuple[Recovery, ...]:
    """Return the recoveries of a cell's counted repetitions, in their order; none where nothing broke."""
    return tuple(_recoveries(bundle, cell)) if cell.fault else ()


def times_us(recoveries: Sequence[Recovery]) -> Floats:
    """Return (R,): recovery times in µs, infinite where a repetition never recovered."""
    return np.array([math.inf if r.recovery_us is None else r.recovery_us for r in recoveries])


def distribution(recoveries: Sequence[Recovery]) -> Distribution:
    """Return a distribution with one value a repetition; one that never recovered counts as a lost cycle."""
    times = np.array([MISSING if r.recovery_us is None else r.recovery_us for r in recoveries], dtype=np.int64)
    return of_values(times, np.array([r.repetition for r in recoveries], dtype=np.int64), MISSING)


def read(bundle: Bundle, cell: Cell) -> Iterator[tuple[Repetition, Fault, Cycles]]:
    """Yield each counted repetition of a cell in which something broke, with its cycles, without warm-up."""
    broken = {r.repetition: (r, r.fault) for r in bundle.repetitions if r.counted and r.cell == cell.index and r.fault}
    rows = bundle.counted(cell).with_columns(at_ns=AT_NS).sort("repetition", "sequence")
    for repetition_rows in rows.partition_by("repetition", maintain_order=True):
        if (first := repetition_rows["repetition"][0]) not in broken:
            continue
        once = repetition_rows.filter(pl.col("status") != "duplicate")
        again = repetition_rows.filter(pl.col("status") == "duplicate")
        answered = once["received_ns"].fill_null(MISSING).to_numpy()
        status = once["status"].cast(pl.String).to_numpy()
        yield *broken[first], Cycles(once["at_ns"].to_numpy(), answered, status, again["received_ns"].to_numpy())


def recovered(cycles: Cycles, fault: Fault) -> int | None:
    """Return the index of the cycle that begins the first unbroken row after the fault; None where there is none."""
    ok = (cycles.status == "ok") & (cycles.at_ns >= fault.in_force_ns)
    if len(ok) < UNBROKEN:
        return None
    rows = np.flatnonzero(np.convolve(ok, np.ones(UNBROKEN, dtype=np.int64), mode="valid") == UNBROKEN)
    return int(rows[0]) if len(rows) else None


def _recoveries(bundle: Bundle, cell: Cell) -> Iterator[Recovery]:
    for repetition, fault, cycles in read(bundle, cell):
        first = recovered(cycles, fault)
        met = (cycles.at_ns >= fault.injected_ns) | (cycles.received_ns == MISSING)
        met |= cycles.received_ns > fault.injected_ns
        met &= cycles.at_ns >= fault.injected_ns - _under_way_ns(bundle)
        if first is not None:
            met[first:] = False
        yield Recovery(
            cell=cell,
            repetition=repetition.repetition,
            order=repetition.order,
            fault=fault,
            recovery_us=None if first is None else _microseconds(cycles.received_ns[first] - fault.injected_ns),
            watched_us=_microseconds(cycles.at_ns[-1] - fault.injected_ns),
            lost=int((met & (cycles.status == "lost")).sum()),
            late=int((met & (cycles.status == "late")).sum()),
            duplicate=int((cycles.duplicates_ns > fault.injected_ns).sum()),
        )


def _under_way_ns(bundle: Bundle) -> int:
    """Return how long before the fault a cycle that it made fail can have been sent: the timeout, in ns."""
    return int(bundle.plan["timeout_ms"]) * 1_000_000


def _microseconds(nanoseconds: int) -> int:
    return int(nanoseconds + 500) // 1000


def _summary(cell: Cell, recoveries: tuple[Recovery, ...], confidence: float) -> Summary:
    return Summary(
        cell=cell,
        recoveries=recoveries,
        median=median(times_us(recoveries), confidence),
        lost=_mean([r.lost for r in recoveries]),
        late=_mean([r.late for r in recoveries]),
        duplicate=_mean([r.duplicate for r in recoveries]),
        never=sum(r.recovery_us is None for r in recoveries),
    )


def median(values_us: Floats, confidence: float = bootstrap.CONFIDENCE) -> Estimate:
    """Return the median of `values_us` (N,), which may be infinite, with its interval where there are enough values."""
    return Estimate(medians.of(values_us), *(medians.limits(values_us, confidence) or ()))


def _mean(counts: Sequence[int]) -> Estimate:
    """Return the mean over repetitions with Student's 95 % interval, not below 0."""
    values = np.array(counts, dtype=np.float64)
    if len(values) < bootstrap.MINIMUM_REPETITIONS:
        return Estimate(float(values.mean()))
    t = float(special.stdtrit(len(values) - 1, (1 + bootstrap.CONFIDENCE) / 2))
    width = t * float(values.std(ddof=1)) / math.sqrt(len(values))
    return Estimate(float(values.mean()), max(0.0, float(values.mean()) - width), float(values.mean()) + width)


def sentence(summaries: Sequence[Summary]) -> str:
    """Return the result in words: for few cells each one's median and losses, for many the extremes."""
    names = labels.of_cells([summary.cell for summary in summaries])
    if len(summaries) <= FEW:
        return " ".join(_sentence(summary, names[summary.cell.index]) for summary in summaries)
    ordered = sorted(summaries, key=lambda summary: summary.median.value_us)
    back = [summary for summary in ordered if math.isfinite(summary.median.value_us)]
    never = [names[summary.cell.index] for summary in ordered if math.isinf(summary.median.value_us)]
    words = ["The loop answers again"] if back else []
    if back:
        first, last = (f"{names[s.cell.index]} ({_median_text(s.median)})" for s in (back[0], back[-1]))
        words.append(f"soonest after {first}, latest after {last}{';' if never else '.'}")
    if never:
        words.append(f"{'in half of the repetitions or more never' if back else 'It never answers again'} after")
        words.append(f"{', '.join(never)}.")
    most = max(summaries, key=lambda summary: summary.lost.value_us)
    if most.lost.value_us:
        words.append(f"Most cycles were lost after {names[most.cell.index]}: {most.lost.value_us:.1f} a repetition.")
    return " ".join(words)


def _sentence(summary: Summary, name: str) -> str:
    never, lost = summary.never, f"{summary.lost.value_us:.1f} cycles lost"
    if math.isinf(summary.median.value_us):
        return f"{name}: {never} of {len(summary.recoveries)} repetitions never recovered, {lost} each."
    words = f"{name}: answers again after {_median_text(summary.median)}, {lost}"
    return f"{words}; {never} of {len(summary.recoveries)} repetitions never recovered." if never else f"{words}."


def _median_text(median: Estimate) -> str:
    value = f"{median.value_us / 1000:.0f} ms"
    if median.low_us is None or median.high_us is None:
        return value
    high = "never" if math.isinf(median.high_us) else f"{median.high_us / 1000:.0f}"
    return f"{value} [{median.low_us / 1000:.0f}, {high}]"


def render(summaries: Iterable[Summary]) -> str:
    """Return the text of recovery.csv: a row a repetition; `recovery_us` is empty where it did not recover."""
    recoveries = [recovery for summary in summaries for recovery in summary.recoveries]
    axes = [axis.name for axis in recoveries[0].cell.family.axes] if recoveries else []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["order", "arm", *axes, *COLUMNS])
    for r in recoveries:
        time_us = "" if r.recovery_us is None else r.recovery_us
        cell = (r.order, r.cell.arm, *r.cell.values, r.repetition, r.fault.kind)
        writer.writerow((*cell, time_us, r.watched_us, r.lost, r.late, r.duplicate))
    return text.getvalue()

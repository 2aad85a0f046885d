# SPDX-License-Identifier: Apache-2.0
"""The rows of samples.parquet, read once: cells lie interleaved all over the file.

To scan the file anew for each question or each cell costs questions × samples; a thousand cells would never end.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import polars as pl

from analysis.reading.arrays import Integers
from analysis.reading.family import Family, Metric, Value

STATUSES = ("ok", "late", "lost", "duplicate")
SILENT = ("no answer", "not sent")
"""Causes of a loss after which nothing was received; word of a board's failure is received, and is a loss too."""
RUNS = 100_000
"""A run writes a repetition after the other, so that a cell is a few slices of the whole; other orders are sorted."""
NARROW = ("repetition", "sequence")
"""Columns whose values mostly fit 32 bits, as do those of metrics: ten million rows are kept in 450 MB."""
KNOWN = ("repetition", "sequence", "warmup", "intended_ns")
"""Columns in which every row has a value."""
NOWHERE = -1
"""The cell of a row that no cell of the plan has."""


@dataclass(frozen=True)
class Rows:
    """Every row, in slices that each belong to one cell and repetition, and are all warm-up or not at all.

    `frame` has `repetition`, `sequence`, the column of each metric, `intended_ns`, `received_ns`, `late_us` (how long
    after its time the request left), `status`, and `holds`: whether the row keeps every condition. `starts`, `cell`,
    `repetition` and `warmup` are (K,), of the K slices.
    """

    frame: pl.DataFrame
    starts: Integers
    cell: Integers
    repetition: Integers
    warmup: npt.NDArray[np.bool_]

    @cached_property
    def ends(self) -> Integers:
        """(K,): where each slice ends."""
        return np.append(self.starts[1:], self.frame.height)

    def of(self, cell: int, repetitions: Collection[int]) -> pl.DataFrame:
        """Return rows of these repetitions of a cell, without warm-up, in the file's order; a view, not a copy."""
        places = self._slices.get(cell, ())
        parts = [self.frame[self.starts[at] : self.ends[at]] for at in places if self.repetition[at] in repetitions]
        return pl.concat(parts, rechunk=False) if parts else self.frame.clear()

    @cached_property
    def _slices(self) -> Mapping[int, Sequence[int]]:
        by_cell: dict[int, list[int]] = {}
        for at in np.flatnonzero(~self.warmup):
            by_cell.setdefault(int(self.cell[at]), []).append(int(at))
        return by_cell


def conditions(metrics: Sequence[Metric]) -> Mapping[str, pl.Expr]:
    """Return what must not be in any row: by name, the expression that is true where it is."""
    status, answered = pl.col("status"), pl.col("status").is_in(["ok", "late", "duplicate"])
    columns = {metric.name: pl.col(metric.column) for metric in metrics}
    first, round_trip = next(iter(columns.items()))
    unexplained = pl.col("received_ns").is_not_null() & pl.col("cause").is_in(SILENT)
    elapsed_ns = pl.col("received_ns") - pl.col("sent_ns")
    differences = {metric.name: metric.difference for metric in metrics if metric.difference}
    return {
        f"a row without {', '.join(KNOWN[:-1])} or {KNOWN[-1]}": pl.any_horizontal(pl.col(*KNOWN).is_null()),
        f"status is not one of {', '.join(STATUSES)}": ~status.is_in(STATUSES).fill_null(value=False),
        **{
            f"{name} is not {whole} − {part}": ~columns[name].eq_missing(columns[whole] - columns[part])
            for name, (whole, part) in differences.items()
        },
        f"{first} is not received − sent": (1000 * round_trip - elapsed_ns).abs() > 1000,
        f"an answer without {first}": answered & round_trip.is_null(),
        "a lost cycle with an answer": (status == "lost") & (round_trip.is_not_null() | unexplained),
        "a negative latency": pl.any_horizontal(
            latency < 0 for name, latency in columns.items() if name not in differences
        ),
    }


def read(samples: pl.LazyFrame, family: Family, cells: Mapping[int, tuple[Value, ...]]) -> Rows:
    """Return all rows of `samples`, typed as documented; `cells` has each cell's values of the family's `key`."""
    keyed = _with_cell(samples, family.key, cells).with_columns(pl.col("status").cast(pl.Enum(STATUSES), strict=False))
    try:
        frame = _read(keyed, family.metrics, pl.Int32())
    except pl.exceptions.InvalidOperationError:  # a latency of half an hour
        frame = _read(keyed, family.metrics, pl.Int64())
    if len(starts := _starts(frame)) > RUNS:
        frame = frame.sort("cell", "repetition", "warmup", maintain_order=True)
        starts = _starts(frame)
    firsts = frame.select(pl.col("cell", "repetition").cast(pl.Int64), "warmup")[starts]
    return Rows(
        frame=frame.drop("cell", "warmup"),
        starts=starts,
        cell=firsts["cell"].to_numpy(),
        repetition=firsts["repetition"].fill_null(NOWHERE).to_numpy(),
        warmup=firsts["warmup"].fill_null(value=False).to_numpy(),
    )


def _read(keyed: pl.LazyFrame, metrics: Sequence[Metric], kind: pl.DataType) -> pl.DataFrame:
    """Return the columns of `Rows.frame`, `cell` and `warmup`; raise where a number does not fit `kind`."""
    late_us = (pl.col("sent_ns") - pl.col("intended_ns")) // 1000
    return keyed.select(
        pl.col("cell").fill_null(NOWHERE),
        "warmup",
        pl.col(*NARROW, *(metric.column for metric in metrics)).cast(kind),
        "intended_ns",
        "received_ns",
        late_us.cast(pl.Int32, strict=False).alias("late_us"),
        "status",
        holds=~pl.any_horizontal(condition.fill_null(value=False) for condition in conditions(metrics).values()),
    ).collect(engine="streaming")


def _with_cell(samples: pl.LazyFrame, names: Sequence[str], cells: Mapping[int, tuple[Value, ...]]) -> pl.LazyFrame:
    """Add `cell`, null where the plan has none; joins only by columns that differ, since joins of text are slow."""
    columns = {key: [cell_values[at] for cell_values in cells.values()] for at, key in enumerate(names)}
    distinct = [key for key, values in columns.items() if len(set(values)) > 1]
    if not cells:
        return samples.with_columns(cell=pl.lit(None, pl.Int32))
    alike = pl.all_horizontal(pl.lit(value=True), *(pl.col(k) == columns[k][0] for k in names if k not in distinct))
    if distinct:
        kinds = samples.collect_schema()
        known = pl.LazyFrame(
            {**{key: columns[key] for key in distinct}, "cell": list(cells)},
            schema={**{key: kinds[key] for key in distinct}, "cell": pl.Int32()},
        ).unique(distinct, keep="first")
        samples = samples.join(known, on=distinct, how="left", maintain_order="left")
    else:
        samples = samples.with_columns(cell=pl.lit(next(iter(cells)), pl.Int32))
    return samples.with_columns(cell=pl.when(alike).then("cell"))


def _starts(frame: pl.DataFrame) -> Integers:
    """Return (K,): the rows in which cell, repetition or warm-up differ from the row before."""
    changed = frame.select(
        pl.any_horizontal(pl.col(name).ne_missing(pl.col(name).shift()) for name in ("cell", "repetition", "warmup"))
    ).to_series()
    if len(changed):
        changed[0] = True
    return np.flatnonzero(changed.to_numpy())

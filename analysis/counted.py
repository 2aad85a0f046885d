# SPDX-License-Identifier: Apache-2.0
"""The counted rows of each cell, read from the samples once: cells lie interleaved all over the file.

To scan the file anew for each cell costs cells × samples; a thousand cells would never end.
"""

from collections.abc import Mapping

import polars as pl

from analysis.bundle import CELL_KEY, SAMPLE_COLUMNS, Bundle, Cell

TIMES = ("intended_ns", "received_ns")
RUNS = 100_000
"""A run writes a repetition after the other, so that a cell is a few slices of the whole; other orders are copied."""
NARROW = ("repetition", "sequence", "t_us", "r_us", "o_us")
"""Columns whose values mostly fit 32 bits: ten million rows are kept in 400 MB."""


def rows(bundle: Bundle, cell: Cell) -> pl.DataFrame:
    """Rows of the cell's counted repetitions, without warm-up, with duplicate answers; times and latencies may be null.

    Columns `repetition`, `sequence`, `intended_ns`, `received_ns`, `t_us`, `r_us`, `o_us` (whole numbers), `status`.
    """
    if not bundle.counted_rows:
        bundle.counted_rows.update(_read(bundle))
    found = bundle.counted_rows.get(cell.index)
    return _none() if found is None else found


def _read(bundle: Bundle) -> Mapping[int, pl.DataFrame]:
    counted = [(r.cell, r.repetition) for r in bundle.repetitions if r.counted]
    if not counted:
        return {}
    distinct = [key for key in CELL_KEY if len({getattr(cell, key) for cell in bundle.cells}) > 1]
    same = [pl.col(key) == getattr(bundle.cells[0], key) for key in CELL_KEY if key not in distinct]
    rows = bundle.samples.filter(~pl.col("warmup"), *same)
    if distinct:
        columns = {key: [getattr(cell, key) for cell in bundle.cells] for key in distinct}
        schema = {**{key: SAMPLE_COLUMNS[key] for key in distinct}, "cell": pl.Int64()}
        cells = pl.LazyFrame({**columns, "cell": [cell.index for cell in bundle.cells]}, schema=schema)
        rows = rows.join(cells, on=distinct, how="inner", maintain_order="left")
    else:
        rows = rows.with_columns(cell=pl.lit(bundle.cells[0].index, pl.Int64))
    if bundle.status != "complete" or len(counted) < len(bundle.repetitions):  # else every row counts
        keys = pl.LazyFrame(counted, schema={"cell": pl.Int64, "repetition": pl.Int64}, orient="row")
        rows = rows.join(keys, on=["cell", "repetition"], how="semi")
    return _by_cell(rows, _narrow(bundle))


def _by_cell(rows: pl.LazyFrame, narrow: Mapping[str, pl.DataType]) -> Mapping[int, pl.DataFrame]:
    read = rows.select(
        pl.col("cell").cast(pl.Int32), *TIMES, *(pl.col(name).cast(kind) for name, kind in narrow.items()),
        pl.col("status").cast(pl.Categorical),
    ).collect(engine="streaming")  # fmt: skip
    runs = read["cell"].rle().struct.unnest()
    if runs.height > RUNS:
        parts = read.partition_by("cell", include_key=False, as_dict=True)
        return {int(str(key[0])): part for key, part in parts.items()}
    slices: dict[int, list[pl.DataFrame]] = {}
    start, rows_only = 0, read.drop("cell")
    for length, cell in runs.iter_rows():
        slices.setdefault(cell, []).append(rows_only.slice(start, length))
        start += length
    return {cell: pl.concat(own, rechunk=False) for cell, own in slices.items()}


def _narrow(bundle: Bundle) -> Mapping[str, pl.DataType]:
    """Each column's type: 32 bits where its values fit."""
    bounds = bundle.samples.select(
        *(pl.col(name).min().alias(f"{name} least") for name in NARROW),
        *(pl.col(name).max().alias(f"{name} most") for name in NARROW),
    ).collect(engine="streaming")

    def fits(name: str) -> bool:
        least, most = bounds.item(0, f"{name} least") or 0, bounds.item(0, f"{name} most") or 0
        return -(1 << 31) <= least <= most < 1 << 31

    return {name: pl.Int32() if fits(name) else pl.Int64() for name in NARROW}


def _none() -> pl.DataFrame:
    names = ("repetition", "sequence", *TIMES, "t_us", "r_us", "o_us")
    return pl.DataFrame(schema={**{name: pl.Int64() for name in names}, "status": pl.Categorical()})

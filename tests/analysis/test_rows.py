# SPDX-License-Identifier: Apache-2.0
"""Rows are read once and cut into slices: whatever their order in the file, each cell gets its own."""

from collections.abc import Sequence

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.reading import rows
from analysis.reading.bundle import COMMON_COLUMNS
from analysis.reading.family import Axis, Family, Metric, Value
from analysis.reading.rows import NOWHERE

FAMILY = Family(
    "control",
    (Axis("interval_ms", "{}", "{}"), Axis("qos", "{}", "{}")),
    (Metric("T", "t_us", ""), Metric("R", "r_us", "", answered_only=True), Metric("O", "o_us", "", ("T", "R"))),
)
KINDS = {**COMMON_COLUMNS, **dict.fromkeys(("interval_ms", "qos", "t_us", "r_us", "o_us"), pl.Int64())}
CELLS: dict[int, tuple[Value, ...]] = {0: ("1", "", 20, 0), 1: ("1", "fifo", 20, 0), 2: ("1", "fifo", 40, 0)}
ELSEWHERE = ("9", "fifo", 20, 0)

Place = tuple[int, int, bool]
"""Cell, repetition, warm-up."""

places = st.lists(st.tuples(st.sampled_from([NOWHERE, *CELLS]), st.integers(1, 3), st.booleans()), max_size=40)


def samples_at(places: Sequence[Place], t_us: int = 900) -> pl.LazyFrame:
    """A row a place, numbered as they stand in the file."""
    entries = []
    for sequence, (cell, repetition, warmup) in enumerate(places):
        scenario, arm, interval_ms, qos = CELLS.get(cell, ELSEWHERE)
        entries.append(
            {
                "scenario": scenario, "arm": arm, "interval_ms": interval_ms, "qos": qos, "repetition": repetition,
                "sequence": sequence, "warmup": warmup, "intended_ns": 0, "sent_ns": 5000,
                "received_ns": 5000 + 1000 * t_us, "t_us": t_us, "r_us": 500, "o_us": t_us - 500, "status": "ok",
                "cause": None,
            }
        )  # fmt: skip
    return pl.LazyFrame(entries, schema=KINDS)


@pytest.mark.parametrize("most_slices", [rows.RUNS, 2])
@given(places=places)
def test_each_cell_and_repetition_gets_its_own_rows_in_the_order_of_the_file(
    most_slices: int, places: list[Place]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rows, "RUNS", most_slices)  # more slices than this are sorted
        found = rows.read(samples_at(places), FAMILY, CELLS)
    for cell in (NOWHERE, *CELLS):
        for repetition in (1, 2, 3):
            expected = [at for at, place in enumerate(places) if place == (cell, repetition, False)]
            assert found.of(cell, {repetition})["sequence"].to_list() == expected


def test_a_latency_of_an_hour_is_read_too() -> None:
    found = rows.read(samples_at([(0, 1, False)], t_us=3_600_000_000), FAMILY, CELLS)
    assert found.frame["t_us"].to_list() == [3_600_000_000]
    assert found.frame["holds"].all()


def test_how_late_a_request_left_is_known_of_every_row_that_was_sent() -> None:
    found = rows.read(samples_at([(0, 1, False)]).with_columns(sent_ns=pl.lit(None, pl.Int64)), FAMILY, CELLS)
    assert found.frame["late_us"].to_list() == [None]
    assert rows.read(samples_at([(0, 1, False)]), FAMILY, CELLS).frame["late_us"].to_list() == [5]


def test_a_plan_without_cells_has_rows_of_none() -> None:
    found = rows.read(samples_at([(0, 1, False)]), FAMILY, {})
    assert found.cell.tolist() == [NOWHERE]


def test_a_bundle_without_rows_has_no_slices() -> None:
    found = rows.read(samples_at([]), FAMILY, CELLS)
    assert found.starts.tolist() == []
    assert found.of(0, {1}).is_empty()


@pytest.mark.parametrize(
    "changed",
    [
        {"status": "odd"}, {"status": None}, {"o_us": 1}, {"t_us": None}, {"r_us": -1, "o_us": 901},
        {"received_ns": 5000 + 2_000_000}, {"status": "lost"}, {"repetition": None}, {"warmup": None},
    ],
)  # fmt: skip
def test_a_row_that_breaks_a_condition_is_marked(changed: dict[str, object]) -> None:
    broken = samples_at([(0, 1, False)]).with_columns(
        **{name: pl.lit(value, KINDS[name]) for name, value in changed.items()}
    )
    assert rows.read(broken, FAMILY, CELLS).frame["holds"].to_list() == [False]

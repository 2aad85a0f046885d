# SPDX-License-Identifier: Apache-2.0
"""From a bundle's rows to the statistics of its cells."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import synthetic
from synthetic import CellSpec, Spec

from analysis.reading.bundle import read
from analysis.statistics import per_cell
from analysis.statistics.quantity import Quantity


def test_statistics_are_those_of_the_rows_with_lost_ones_last(scenario_1: Path) -> None:
    rows = pl.read_parquet(scenario_1 / "samples.parquet").filter(~pl.col("warmup"))
    for summary in per_cell.summarise(read(scenario_1)):
        own = rows.filter(
            pl.col("interval_ms") == summary.cell.on("interval_ms"), pl.col("status").is_in(["ok", "late"])
        )
        lost = summary.counts.lost
        for metric, column in {"T": "t_us", "R": "r_us", "O": "o_us"}.items():
            values, estimates = own[column].to_numpy(), summary.estimates[metric]
            assert summary.distributions[metric].total == len(values)
            assert estimates["min"].value_us == values.min()
            assert estimates["max"].value_us == values.max()
            assert np.isclose(estimates["avg"].value_us, values.mean())
            for name, q in {"p50": 0.5, "p90": 0.9, "p99": 0.99}.items():
                everything = np.concatenate([values, np.full(0 if metric == "R" else lost, 10**9)])
                value = np.quantile(everything, q)
                if value < 10**8:
                    assert np.isclose(estimates[name].value_us, value)
                else:
                    assert name in summary.cut[metric]
            assert "p99.9" not in estimates


def test_counts_add_up(scenario_1: Path) -> None:
    counts = {s.cell.on("interval_ms"): s.counts for s in per_cell.summarise(read(scenario_1))}
    assert all(c.offered == 500 == c.ok + c.late + c.lost for c in counts.values())
    assert (counts[50].late, counts[20].duplicate, counts[10].lost) == (5, 10, 15)


def test_latency_from_the_intended_time_is_longer_by_the_lateness(scenario_1: Path) -> None:
    rows = pl.read_parquet(scenario_1 / "samples.parquet")
    summary = per_cell.summarise(read(scenario_1))[0]
    lateness_us = float(np.mean((rows["sent_ns"] - rows["intended_ns"]).to_numpy())) / 1000
    difference = summary.estimates["T_intended"]["avg"].value_us - summary.estimates["T"]["avg"].value_us
    assert difference == pytest.approx(lateness_us, abs=5)


def test_an_answer_that_a_later_cycle_overtook_is_reordered(bundle: Path) -> None:
    path = bundle / "samples.parquet"
    rows = pl.read_parquet(path)
    slow = (pl.col("repetition") == 1) & (pl.col("sequence") == 10)
    extra_us = pl.when(slow).then(50_000).otherwise(0)
    rows = rows.with_columns(
        pl.col("received_ns") + extra_us * 1000, pl.col("t_us") + extra_us, pl.col("o_us") + extra_us
    )
    rows.write_parquet(path)
    assert per_cell.summarise(read(bundle))[0].counts.reordered == 1


def test_only_counted_repetitions_are_in_the_statistics(tmp_path: Path) -> None:
    def supersede(document: dict[str, Any]) -> None:
        document["repetitions"][0] |= {"counted": False, "validity": "noisy", "reasons": ["steal 9 %"]}

    folder = synthetic.write(tmp_path / "bundle", Spec(repetitions=4, messages=10, edit=supersede))
    summary = per_cell.summarise(read(folder))[0]
    assert (summary.repetitions, summary.counts.offered) == (3, 30)


def test_a_repetition_that_lost_every_cycle_still_counts_its_losses(tmp_path: Path) -> None:
    folder = synthetic.write(tmp_path / "bundle", Spec(cells=(CellSpec(lost=10),), repetitions=3, messages=10))
    summary = per_cell.summarise(read(folder))[0]
    assert summary.counts.lost == 30
    assert summary.estimates == {}
    assert summary.outcomes[Quantity("lost", "share_percent")].value == 100


def test_a_curve_that_loses_three_of_a_hundred_has_no_p99(tmp_path: Path) -> None:
    folder = synthetic.write(tmp_path / "bundle", Spec(cells=(CellSpec(lost=3),), repetitions=5))
    summary = per_cell.summarise(read(folder))[0]
    assert summary.cut["T"] == ("p99",)
    assert "p99" not in summary.estimates["T"]
    assert "p99" in summary.estimates["R"]
    o_p99 = summary.interval(Quantity("O", "p99"))
    assert o_p99 is not None
    assert math.isinf(o_p99.value)
    assert (summary.estimates["T"]["p90"].high_us or 0) > summary.estimates["T"]["p90"].value_us


def test_a_share_has_an_interval_even_where_nothing_was_lost(tmp_path: Path) -> None:
    summary = per_cell.summarise(read(synthetic.write(tmp_path / "bundle", Spec(repetitions=5))))[0]
    none = summary.outcomes[Quantity("lost", "share_percent")]
    assert (none.value, none.low) == (0, 0)
    assert 0.5 < (none.high or 0) < 3


def test_the_longest_bursts_are_counted_within_repetitions(tmp_path: Path) -> None:
    folder = synthetic.write(tmp_path / "bundle", Spec(repetitions=3, messages=20))
    rows = pl.read_parquet(folder / "samples.parquet")
    end = (pl.col("repetition") == 1) & (pl.col("sequence") >= 22)
    start = (pl.col("repetition") == 2) & (pl.col("sequence").is_in([5, 6]))
    gone = [pl.when(~(end | start)).then(pl.col(name)).alias(name) for name in ("received_ns", "t_us", "r_us", "o_us")]
    lost = pl.when(end | start).then(pl.lit("lost")).otherwise(pl.col("status")).alias("status")
    rows.with_columns(*gone, lost).write_parquet(folder / "samples.parquet")
    outcomes = per_cell.summarise(read(folder))[0].outcomes
    assert outcomes[Quantity("lost", "longest_burst")].value == 3
    assert outcomes[Quantity("lost", "burst")].value == pytest.approx(5 / 3)

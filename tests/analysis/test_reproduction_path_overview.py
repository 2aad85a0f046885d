# SPDX-License-Identifier: Apache-2.0
"""Replays judged claim by claim, O split along the path, and several runs in one table."""

import json
import shutil
from pathlib import Path

import polars as pl
import pytest
import synthetic
from synthetic import CellSpec, Latency, Spec
from test_analysis_cli import run

from analysis import path, reproduction
from analysis.bundle import BundleError, read


def written(folder: Path, seed: int, shift_us: float = 0) -> Path:
    cells = (CellSpec(latency=Latency(shift_us=shift_us)),)
    return synthetic.write(folder, Spec(cells=cells, repetitions=10, messages=100, seed=seed))


def verdicts(original: Path, replay: Path) -> set[str]:
    return {own.verdict for own in reproduction.outcomes(read(original), read(replay)) if own.claim.endswith("O p50")}


def test_a_replay_at_the_same_level_is_never_called_not_reproduced(tmp_path: Path) -> None:
    original, replay = written(tmp_path / "a", 1), written(tmp_path / "b", 2)
    assert reproduction.NO not in verdicts(original, replay)


def test_a_replay_that_is_a_millisecond_slower_is_not_reproduced(tmp_path: Path) -> None:
    original, replay = written(tmp_path / "a", 1), written(tmp_path / "b", 2, shift_us=1000)
    assert verdicts(original, replay) == {reproduction.NO}
    done = run("reproduced", original, replay)
    assert done.returncode == 0
    assert "not reproduced" in done.stdout


def split(folder: Path, *, error_us: float = 0.0) -> None:
    parts = dict.fromkeys(path.PARTS, 100.0) | {"client_to_broker_us": 100.0 + error_us}
    row = {"scenario": "1", "arm": "", "interval_ms": 20, "qos": 0, "repetition": 1, "sequence": 9, "warmup": False}
    pl.DataFrame([row | parts | {"o_us": 500}]).write_parquet(folder / path.FILE)


def test_the_split_shows_shares_that_add_up(bundle: Path) -> None:
    split(bundle)
    rows = path.table(path.read(read(bundle))).rows
    assert [row[6] for row in rows] == ["20 %"] * 5 + ["100 %"]


def test_parts_that_miss_o_are_damage_and_no_split_is_one_clear_line(bundle: Path) -> None:
    done = run("path", bundle)
    assert (done.returncode, "no path.parquet" in done.stderr) == (2, True)
    split(bundle, error_us=60.0)
    with pytest.raises(BundleError, match="miss its O by 60 µs"):
        path.read(read(bundle))


def test_a_wall_clock_that_was_set_is_told_though_the_parts_add_up(bundle: Path) -> None:
    """A message stamped 3 ms late makes one part longer and the next shorter: no sum can see it."""
    split(bundle)
    assert path.cautions(path.read(read(bundle))) == []
    rows = pl.read_parquet(bundle / path.FILE)
    moved = [pl.col("client_to_broker_us") + 3000, pl.col("in_broker_request_us") - 3000]
    rows.with_columns(moved).write_parquet(bundle / path.FILE)
    document = json.loads((bundle / "bundle.json").read_text())
    document["repetitions"][0]["capture"] = {"gaps": 0, "dropped": 0, "clock_moved_us": 3000}
    (bundle / "bundle.json").write_text(json.dumps(document))
    said = path.cautions(path.read(read(bundle)))
    assert "in 1 of 1 cycles a part is negative" in said[0]
    assert "the wall clock moved by 3 ms" in said[1]


def test_several_runs_share_one_table(scenario_1: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(scenario_1, tmp_path / "again"))
    done = run("overview", scenario_1, copy, "--into", tmp_path / "overview")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "overview" / "overview.md").read_text().count("Latency in ms") == 1

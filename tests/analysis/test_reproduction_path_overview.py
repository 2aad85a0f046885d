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

from analysis.judging import reproduction
from analysis.reading.bundle import BundleError, read
from analysis.showing import overview
from analysis.showing.control import path
from analysis.statistics import per_cell


def written(folder: Path, seed: int, shift_us: float = 0) -> Path:
    cells = (CellSpec(latency=Latency(shift_us=shift_us)),)
    return synthetic.write(folder, Spec(cells=cells, repetitions=10, messages=100, seed=seed))


def verdicts(original: Path, replay: Path) -> set[str]:
    return {
        own.verdict for own in reproduction.outcomes(read(original), read(replay)) if own.claim.endswith("median of O")
    }


def test_a_replay_at_the_same_level_is_never_called_not_reproduced(tmp_path: Path) -> None:
    original, replay = written(tmp_path / "a", 1), written(tmp_path / "b", 2)
    assert reproduction.NO not in verdicts(original, replay)


def test_a_replay_that_is_a_millisecond_slower_is_not_reproduced(tmp_path: Path) -> None:
    original, replay = written(tmp_path / "a", 1), written(tmp_path / "b", 2, shift_us=1000)
    assert verdicts(original, replay) == {reproduction.NO}
    done = run("reproduced", original, replay)
    assert done.returncode == 0
    first = " ".join(done.stdout.split())  # lines are folded
    assert "claims were reproduced" in first
    assert "Contradicted: scenario 1, 20 ms, QoS 0: " in first


def arms(folder: Path, messages: int, gain_us: float, hosts: str = "1f2e3d") -> Path:
    cells = (CellSpec(arm="none"), CellSpec(arm="fifo", latency=Latency(shift_us=gain_us)))
    spec = Spec(cells=cells, repetitions=10, messages=messages, host={"hostname_hash": hosts})
    return synthetic.write(folder, spec)


def test_claims_pair_by_what_they_are_about_though_one_run_supports_fewer(tmp_path: Path) -> None:
    original, replay = read(arms(tmp_path / "a", 40, -300)), read(arms(tmp_path / "b", 20, -300))
    found = [own for own in reproduction.outcomes(original, replay) if "→" in own.claim]
    by_claim = {own.claim.rpartition(": ")[2]: own for own in found}
    assert by_claim["p99 of O"].replay == "not measured"
    assert by_claim["p99 of O"].verdict == reproduction.OPEN
    assert by_claim["median of O"].verdict == reproduction.YES
    assert by_claim["mean of O"].replay == "faster"


def test_an_arm_that_helped_and_now_harms_is_contradicted(tmp_path: Path) -> None:
    found = reproduction.outcomes(read(arms(tmp_path / "a", 40, -400)), read(arms(tmp_path / "b", 40, 400)))
    assert {own.verdict for own in found if "→" in own.claim and "median of O" in own.claim} == {reproduction.NO}
    assert "Contradicted: " in reproduction.summary(found)


def test_a_replay_that_measured_nothing_cannot_tell(tmp_path: Path) -> None:
    original, replay = written(tmp_path / "a", 1), synthetic.write(tmp_path / "b", Spec(repetitions=1))
    assert reproduction.summary(reproduction.outcomes(read(original), read(replay))).startswith("Cannot tell")


def test_a_replay_on_another_machine_says_what_travels(tmp_path: Path) -> None:
    here, there = read(arms(tmp_path / "a", 20, 0)), read(arms(tmp_path / "b", 20, 0, "another"))
    assert reproduction.caveat(here, here) is None
    assert "another machine" in str(reproduction.caveat(here, there))


def split(folder: Path, *, error_us: float = 0.0) -> None:
    parts = dict.fromkeys(path.PARTS, 100.0) | {"client_to_broker_us": 100.0 + error_us}
    row = {"scenario": "1", "arm": "", "interval_ms": 20, "qos": 0, "repetition": 1, "sequence": 9, "warmup": False}
    pl.DataFrame([row | parts | {"o_us": 500}]).write_parquet(folder / path.FILE)


def test_the_split_shows_shares_that_add_up(bundle: Path) -> None:
    split(bundle)
    rows = path.table(path.read(read(bundle))).rows
    assert [row[6] for row in rows] == ["20 %"] * 5 + ["100 %"]


@pytest.mark.parametrize("column", ["scenario", "qos", "warmup", "o_us", "in_broker_request_us"])
def test_a_split_with_a_column_of_another_kind_is_one_line(bundle: Path, column: str) -> None:
    split(bundle)
    rows = pl.read_parquet(bundle / path.FILE)
    for harmed in (rows.drop(column), rows.with_columns(pl.lit([1]).alias(column))):
        harmed.write_parquet(bundle / path.FILE)
        with pytest.raises(BundleError, match=r"path\.parquet: cut or damaged") as caught:
            path.read(read(bundle))
        assert str(caught.value).isprintable()


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


def scenarios(folder: Path, shifts_us: dict[str, float]) -> list[Path]:
    return [
        synthetic.write(
            folder / name,
            Spec(
                name=f"scenario-{name}", repetitions=8, data_seed=int(name) + 1,
                cells=tuple(CellSpec(scenario=name, interval_ms=i, latency=Latency(shift_us=shift)) for i in (20, 10)),
            ),
        )
        for name, shift in shifts_us.items()
    ]  # fmt: skip


def test_an_overview_is_one_page_whose_story_follows_from_the_samples(tmp_path: Path) -> None:
    folders = scenarios(tmp_path, {"1": 0, "2": 2000, "5": 0})
    done = run("overview", *folders, "--into", tmp_path / "overview")
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "overview" / "overview.html").read_text()
    assert "CPU stress (2 against 1): p99 of O slower by" in text
    assert "Priority on broker and client, under stress, (5 against 2): p99 of O faster by" in text
    assert "median of R the same" not in text
    assert "<img" not in text
    assert 'id="distributions"' in text
    assert len(text) < 2_000_000
    assert text.count("<script") == 3, "data, plots, ours"
    told = (tmp_path / "overview" / "overview.md").read_text()
    assert told.count("Latency in ms") == 1
    assert "CPU stress (2 against 1)" in told
    first = done.stdout.splitlines()[0]
    assert first.startswith("Stress costs the tail and the median of O; on broker and client it takes the tail back")


def test_other_samples_tell_another_story(tmp_path: Path) -> None:
    folders = scenarios(tmp_path, {"1": 2000, "2": 0})
    runs = [(read(folder), per_cell.summarise(read(folder))) for folder in folders]
    gist, sentence = overview.write(runs, tmp_path / "out").story
    assert gist.startswith("No cost of stress is shown")
    assert sentence.startswith("CPU stress (2 against 1): p99 of O faster by")


def test_runs_that_pair_in_nothing_have_a_page_without_a_story(scenario_1: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(scenario_1, tmp_path / "again"))
    done = run("overview", copy, "--into", tmp_path / "overview")
    assert done.returncode == 0, done.stderr
    assert "No two of these runs" in (tmp_path / "overview" / "overview.html").read_text()

# SPDX-License-Identifier: Apache-2.0
"""Whatever a bundle holds: no traceback, one line, nothing started, nothing written outside its folder."""

import contextlib
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import damage
import polars as pl
import pytest
import synthetic
from damage import Edit, FileDamage
from hypothesis import HealthCheck, given, settings
from synthetic import CellSpec, Spec

from analysis import cli
from analysis.judging import answer, compare, reproduction
from analysis.reading import integrity
from analysis.reading.bundle import BundleError, read
from analysis.reading.selection import select
from analysis.showing import derived, report
from analysis.statistics import per_cell
from experiments import differences
from experiments.errors import BadInputError
from experiments.replay import Recorded

CELLS = (
    CellSpec(arm="none"),
    CellSpec(arm="fifo", lost=1, knobs={"broker": {"tcp": "nodelay", "priority": "fifo:90"}}),
)
many = settings(max_examples=100, suppress_health_check=list(HealthCheck))
few = settings(many, max_examples=12)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic.write(
        tmp_path_factory.mktemp("damage") / "good",
        Spec(cells=CELLS, repetitions=3, messages=4, warmup=1, resources=True),
    )


@pytest.fixture(scope="module")
def document(good: Path) -> Any:
    return json.loads((good / "bundle.json").read_text())


@contextlib.contextmanager
def damaged(good: Path) -> Iterator[Path]:
    """A copy to damage, alone in a folder that must hold nothing else afterwards."""
    place = good.with_name("place")
    shutil.copytree(good, place / "bundle", symlinks=True)
    try:
        yield place / "bundle"
        assert [path.name for path in place.iterdir()] == ["bundle"]
    finally:
        shutil.rmtree(place)


def one_line(error: Exception) -> None:
    assert str(error).isprintable(), repr(str(error))


def use(folder: Path) -> None:
    """Everything that analysis makes of a bundle, but for the slow figures."""
    run = read(folder)
    integrity.check(run)
    summaries = per_cell.summarise(run)
    for text in (derived.table(run, summaries), report.render(run, summaries, answer.of(run, summaries))):
        assert "\x1b" not in text
        assert "\x00" not in text
    assert len(reproduction.summary(reproduction.outcomes(run, run)).splitlines()) == 1
    compare.compare(select(str(folder), read), select(str(folder), read))


@many
@given(changes=damage.edits)
def test_any_edit_of_bundle_json_is_one_line_or_changes_nothing(good: Path, document: Any, changes: list[Edit]) -> None:
    with damaged(good) as folder:
        (folder / "bundle.json").write_text(damage.edited(document, changes))
        try:
            use(folder)
        except BundleError as error:
            one_line(error)


@many
@given(changes=damage.edits)
def test_any_edit_is_planned_as_a_replay_or_refused_and_starts_nothing(
    good: Path, document: Any, changes: list[Edit]
) -> None:
    def start(*arguments: object, **_: object) -> None:
        raise AssertionError(f"started {arguments}")

    with damaged(good) as folder, pytest.MonkeyPatch.context() as patch:
        (folder / "bundle.json").write_text(damage.edited(document, changes))
        try:
            recorded = Recorded.read(folder)
            patch.setattr(subprocess, "Popen", start)
            planned = recorded.plan("89abcdef")
        except BadInputError as error:
            one_line(error)
        else:
            patch.undo()
            assert {cell.conditions.board.kind for cell in planned.cells} <= {"simavr", "model", "none"}
            facts = [fact for fact in differences.here(recorded.facts, planned, {}) if fact.was != fact.now]
            assert all(fact.line.isprintable() for fact in facts)


@few
@given(name=damage.files, harm=damage.file_damages)
def test_any_damage_to_a_file_is_one_line_or_a_finding(good: Path, name: str, harm: FileDamage) -> None:
    with damaged(good) as folder:
        try:
            harm(folder / name)
        except Exception:  # not every harm fits every file
            return
        for command in (["verify"], ["summarise"], ["compare", str(folder)]):
            code, out, err = call(*command, str(folder))
            assert code in ((0, 1, 2) if command == ["verify"] else (0, 2)), (command, out, err)
            assert len(err.splitlines()) == (code == 2)
            assert "Traceback" not in err


def _answers(t_us: int, r_us: int = 0) -> list[pl.Expr]:
    o_us = t_us - r_us
    columns = {"t_us": t_us, "r_us": r_us, "o_us": o_us}
    return [
        *(pl.lit(value, dtype=pl.Int64).alias(name) for name, value in columns.items()),
        (pl.col("sent_ns") + 1000 * t_us).alias("received_ns"),
    ]


CLOCKS = ("intended_ns", "sent_ns", "received_ns")


@pytest.mark.parametrize(
    "columns",
    [
        _answers(0),
        _answers(9 * 10**15),
        _answers(10, 10**6),
        [pl.lit(2**63 - 1).alias("t_us"), pl.lit(0).alias("r_us"), pl.lit(2**63 - 1).alias("o_us")],
        [pl.lit(-(2**62)).alias("intended_ns")],
        [pl.lit(2**63 - 1).alias("intended_ns")],
        [pl.lit(None, dtype=pl.Int64).alias("intended_ns")],
        [pl.lit(None, dtype=pl.Int64).alias("sent_ns")],
        [(pl.col(name) - 2**62).alias(name) for name in CLOCKS],
        [(pl.col("sequence") - 2**62).alias("sequence")],
        [pl.lit(None, dtype=pl.Boolean).alias("warmup")],
        [pl.lit(value=True).alias("warmup")],
        [pl.lit(None, dtype=pl.String).alias("board"), pl.lit("\x1b[31m").alias("cause")],
    ],
    ids=range(13),
)
def test_samples_that_no_clock_could_give_are_one_line_or_told_as_they_are(good: Path, columns: list[pl.Expr]) -> None:
    with damaged(good) as folder:
        path = folder / "samples.parquet"
        named = {column.meta.output_name(): column for column in columns}
        answered = pl.col("status") == "ok"  # what is lost stays lost, so that counts and rows agree
        changed = {name: pl.when(answered).then(column).otherwise(pl.col(name)) for name, column in named.items()}
        pl.read_parquet(path).with_columns(**changed).write_parquet(path)
        try:
            use(folder)
        except BundleError as error:
            one_line(error)


def call(*arguments: str) -> tuple[int, str, str]:
    """`python -m analysis` in this very process: an exception that escapes it fails the test."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", ["analysis", *arguments])
        try:
            cli.main()
        except SystemExit as ended:
            return int(ended.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("name", ["figures", "report.html", "summary.csv", ".report.html.part", "derived.SHA256SUMS"])
@pytest.mark.parametrize("command", ["report", "summarise"])
def test_nothing_is_written_through_a_link(good: Path, command: str, name: str) -> None:
    with damaged(good) as folder:
        victim = good.with_name("victim")
        victim.mkdir(exist_ok=True)
        (victim / "kept").write_text("kept")
        (folder / name).symlink_to(victim if name == "figures" else victim / "kept")
        code, _, err = call(command, str(folder))
        assert (code, "symbolic link" in err) == (2, True)
        assert [path.read_text() for path in victim.iterdir()] == ["kept"]


@pytest.mark.parametrize("name", ["report.html", ".summary.csv.part", "derived.SHA256SUMS"])
def test_a_folder_where_a_file_belongs_is_one_line(good: Path, name: str) -> None:
    with damaged(good) as folder:
        (folder / name).mkdir()
        code, _, err = call("report", str(folder))
        assert (code, f"{name}: a folder where a file belongs" in err) == (2, True)


def test_a_bundle_whose_table_is_a_bomb_is_refused_unread(good: Path) -> None:
    with damaged(good) as folder:
        rows = pl.read_parquet(folder / "samples.parquet").head(1)
        bomb = rows.select(pl.all().repeat_by(3_000_000).explode())
        bomb.write_parquet(folder / "samples.parquet")
        code, _, err = call("summarise", str(folder))
        assert code == 2
        assert "3,000,000 rows, where the plan gives at most" in err

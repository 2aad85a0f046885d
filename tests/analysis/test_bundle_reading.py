# SPDX-License-Identifier: Apache-2.0
"""Bundles complete, partial, refused and damaged: read, or one line that says what is wrong."""

import json
import shutil
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import synthetic
from synthetic import Spec

from analysis.reading import integrity
from analysis.reading.bundle import BundleError, read
from analysis.showing import derived, summary
from analysis.statistics import per_cell


def edit(folder: Path, **changes: object) -> None:
    path = folder / "bundle.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def change(folder: Path, *columns: pl.Expr) -> None:
    path = folder / "samples.parquet"
    pl.read_parquet(path).with_columns(*columns).write_parquet(path)


def line_of(error: BundleError) -> str:
    line = str(error)
    assert "\n" not in line
    return line


def test_a_complete_bundle_agrees_with_itself(scenario_1: Path) -> None:
    assert list(integrity.findings(read(scenario_1))) == []


def test_a_run_killed_before_its_first_repetition_is_readable(bundle: Path) -> None:
    (bundle / "samples.parquet").unlink()
    edit(bundle, status="partial", repetitions=[], reason=None)
    assert list(integrity.findings(read(bundle))) == []
    assert per_cell.summarise(read(bundle)) == ()


def test_a_kill_between_samples_and_bundle_json_leaves_the_listed_repetitions(bundle: Path) -> None:
    repetitions = json.loads((bundle / "bundle.json").read_text())["repetitions"]
    edit(bundle, status="partial", repetitions=repetitions[:2])
    run = read(bundle)
    assert list(integrity.findings(run)) == []
    assert per_cell.summarise(run)[0].counts.offered == 40


def test_a_run_killed_in_its_middle_is_read_from_its_parts(bundle: Path) -> None:
    whole = per_cell.summarise(read(bundle))
    document = json.loads((bundle / "bundle.json").read_text())
    (bundle / ".parts").mkdir()
    rows = pl.read_parquet(bundle / "samples.parquet")
    for i, entry in enumerate(document["repetitions"]):
        (bundle / ".parts" / f"repetition-{i:06}.json").write_text(json.dumps(entry))
        own = rows.filter(pl.col("repetition") == entry["repetition"])
        own.write_parquet(bundle / ".parts" / f"samples-{i:06}.parquet")
    (bundle / "samples.parquet").unlink()
    edit(bundle, status="partial", reason="not ended", ended_utc=None, repetitions=[])
    run = read(bundle)
    assert list(integrity.findings(run)) == []
    assert per_cell.summarise(run)[0].estimates == whole[0].estimates


def test_a_torn_part_is_one_line(bundle: Path) -> None:
    edit(bundle, status="partial", ended_utc=None)
    (bundle / ".parts").mkdir()
    (bundle / ".parts" / "repetition-000000.json").write_text("{")
    with pytest.raises(BundleError, match="not readable as JSON") as caught:
        read(bundle)
    line_of(caught.value)


def test_a_refused_bundle_is_readable(tmp_path: Path) -> None:
    def refuse(document: dict[str, Any]) -> None:
        for entry in document["repetitions"]:
            entry |= {"counted": False, "validity": "refused", "reasons": ["priority: fifo:90 requested, other:0 read"]}

    folder = synthetic.write(tmp_path / "b", Spec(status="refused", repetitions=2, messages=5, edit=refuse))
    assert per_cell.summarise(read(folder)) == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{", "not readable as JSON"),
        ("[]", "holds [], not an object"),
        ("{}", "schema_version is null"),
        ('{"schema_version": 1}', "name is missing"),
        ('{"schema_version": 99}', "newer than 2"),
        ('{"schema_version": 0}', "schema_version 0 is unknown"),
        ('{"schema_version": 1, "plan": {"cells": [3]}, "repetitions": []}', "bundle.json"),
    ],
)
def test_a_damaged_bundle_json_is_one_line(bundle: Path, text: str, told: str) -> None:
    (bundle / "bundle.json").write_text(text)
    with pytest.raises(BundleError) as caught:
        read(bundle)
    assert told in line_of(caught.value)


@pytest.mark.parametrize("keep", [0, 3, 100, -10])
def test_a_cut_parquet_is_one_line(bundle: Path, keep: int) -> None:
    path = bundle / "samples.parquet"
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(BundleError) as caught:
        read(bundle)
    assert "samples.parquet: cut or damaged" in line_of(caught.value)


def test_bytes_overwritten_inside_the_parquet_are_one_line(bundle: Path) -> None:
    path = bundle / "samples.parquet"
    content = bytearray(path.read_bytes())
    content[40:600] = b"\0" * 560
    path.write_bytes(content)
    with pytest.raises(BundleError) as caught:
        integrity.check(read(bundle))
    assert "samples.parquet" in line_of(caught.value)


@pytest.mark.parametrize("column", ["t_us", "status"])
def test_a_missing_column_is_named(bundle: Path, column: str) -> None:
    path = bundle / "samples.parquet"
    pl.read_parquet(path).drop(column).write_parquet(path)
    with pytest.raises(BundleError, match=f"column {column} is missing"):
        read(bundle)


def test_a_column_of_another_type_is_named(bundle: Path) -> None:
    change(bundle, pl.col("t_us").cast(pl.String))
    with pytest.raises(BundleError, match="column t_us is String, not Int64"):
        read(bundle)


ROW_7 = (pl.col("repetition") == 2) & (pl.col("sequence") == 7)


@pytest.mark.parametrize(
    ("column", "told"),
    [
        (pl.when(ROW_7).then(1).otherwise(pl.col("o_us")).alias("o_us"), "O is not T − R; first at"),
        (pl.when(ROW_7).then(1).otherwise(pl.col("t_us")).alias("t_us"), "T is not received − sent"),
        (pl.when(ROW_7).then(pl.lit("fine")).otherwise(pl.col("status")).alias("status"), "status is not one of"),
        (
            pl.when(ROW_7).then(pl.lit("lost")).otherwise(pl.col("status")).alias("status"),
            "a lost cycle with an answer",
        ),
        (pl.when(ROW_7).then(8).otherwise(pl.col("sequence")).alias("sequence"), "20 rows for 19 cycles"),
        (pl.when(ROW_7).then(99).otherwise(pl.col("qos")).alias("qos"), "bundle.json does not list"),
    ],
)
def test_an_edited_row_is_found(bundle: Path, column: pl.Expr, told: str) -> None:
    change(bundle, column)
    assert any(told in finding for finding in integrity.findings(read(bundle)))
    with pytest.raises(BundleError):
        integrity.check(read(bundle))


def test_edited_counts_are_found(bundle: Path) -> None:
    repetitions = json.loads((bundle / "bundle.json").read_text())["repetitions"]
    repetitions[1]["counts"]["ok"] -= 1
    edit(bundle, repetitions=repetitions)
    found = list(integrity.findings(read(bundle)))
    assert any("is not ok + late + lost" in finding for finding in found)
    assert any("bundle.json counts 19 ok, samples.parquet 20" in finding for finding in found)


def test_a_complete_run_without_a_planned_repetition_is_found(bundle: Path) -> None:
    repetitions = json.loads((bundle / "bundle.json").read_text())["repetitions"]
    edit(bundle, repetitions=repetitions[:-1])
    assert any("planned repetitions are missing" in finding for finding in integrity.findings(read(bundle)))


def test_a_bundle_from_before_there_were_families_gives_the_same(scenario_1: Path, tmp_path: Path) -> None:
    older = Path(shutil.copytree(scenario_1, tmp_path / "older"))
    document = json.loads((older / "bundle.json").read_text())
    synthetic.as_version_1(document)
    (older / "bundle.json").write_text(json.dumps(document))
    now, then = read(scenario_1), read(older)
    assert then.family == now.family
    of_now, of_then = (summary.render(per_cell.summarise(run), run.axes) for run in (now, then))
    assert of_then == of_now
    assert of_now.startswith("scenario,interval_ms,qos,metric,statistic,value_us,count")


def test_columns_that_are_not_known_are_not_looked_at(bundle: Path) -> None:
    change(bundle, pl.lit(1.5).alias("temperature"))
    pl.read_parquet(bundle / "samples.parquet").drop("board").write_parquet(bundle / "samples.parquet")
    assert list(integrity.findings(read(bundle))) == []


def leaves(node: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    """The path to every value in a JSON document, containers too."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(leaf for key, child in items for leaf in leaves(child, (*path, key)))]


@pytest.mark.parametrize("value", [None, "x", -1, 0, 10**30, 2.5, True, [], [1], {}, {"a": 1}], ids=repr)
def test_no_value_anywhere_in_bundle_json_makes_it_unreadable_without_a_line(tmp_path: Path, value: object) -> None:
    bundle = synthetic.write(tmp_path / "bundle", Spec(repetitions=1, messages=3, warmup=1))
    text = (bundle / "bundle.json").read_text()
    for path in leaves(json.loads(text)):
        document = json.loads(text)
        if path:
            node = document
            for key in path[:-1]:
                node = node[key]
            node[path[-1]] = value
        (bundle / "bundle.json").write_text(json.dumps(document if path else value))
        try:
            run = read(bundle)
            integrity.check(run)
            derived.table(run, per_cell.summarise(run))
        except BundleError as error:
            line_of(error)

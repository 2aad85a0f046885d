# SPDX-License-Identifier: Apache-2.0
"""A bundle verifies as it was left behind, and not once anything in it was touched."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import synthetic
from synthetic import Spec
from test_analysis_cli import run

from analysis.reading.bundle import read
from analysis.showing import derived
from analysis.showing.verify import verify
from analysis.statistics import per_cell


@pytest.fixture(scope="module")
def summarised(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = synthetic.write(tmp_path_factory.mktemp("verify") / "b", Spec(repetitions=3, messages=20))
    derived.write(read(folder), per_cell.summarise(read(folder)), folder)
    return folder


@pytest.fixture
def copy(summarised: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(summarised, tmp_path / "copy"))


def findings(folder: Path) -> str:
    found = verify(folder).findings
    assert all("\n" not in line for line in found)
    return "\n".join(found)


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    path = folder / "bundle.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


def test_an_untouched_bundle_verifies(copy: Path) -> None:
    report = verify(copy)
    assert report.findings == ()
    assert any("15 derived files made again, byte for byte" in line for line in report.held)


def test_a_bundle_without_derived_files_verifies(bundle: Path) -> None:
    assert verify(bundle).findings == ()


def test_edited_samples_are_found_even_with_new_checksums(copy: Path) -> None:
    path = copy / "samples.parquet"
    rows = pl.read_parquet(path)
    rows.with_columns(pl.col("t_us") - 300, pl.col("o_us") - 300, pl.col("received_ns") - 300_000).write_parquet(path)
    assert "samples.parquet: changed since SHA256SUMS was written" in findings(copy)
    synthetic.checksums(copy)
    assert "table.md: not what the samples give" in findings(copy)
    assert "summary.csv: not what the samples give" in findings(copy)


@pytest.mark.parametrize("name", ["summary.csv", "table.md", "figures/cdf-scenario-1-T.svg"])
def test_an_edited_derived_file_is_found(copy: Path, name: str) -> None:
    (copy / name).write_bytes((copy / name).read_bytes() + b" ")
    assert f"{name}: changed since derived.SHA256SUMS was written" in findings(copy)
    assert f"{name}: not what the samples give" in findings(copy)


def test_a_figure_that_follows_from_nothing_is_found(copy: Path) -> None:
    (copy / "figures" / "better.png").write_bytes(b"")
    assert "figures/better.png: does not follow from the samples" in findings(copy)


def test_missing_proofs_and_broken_knobs_are_found(copy: Path) -> None:
    def change(document: dict[str, Any]) -> None:
        document["repetitions"][0]["proofs"] = []
        document["repetitions"][1]["proofs"][0]["holds"] = False

    edit(copy, change)
    assert "tcp on broker has no proof in 1 repetitions, first cell 0, repetition 1" in findings(copy)
    assert "tcp on broker did not hold, yet is counted in 1 repetitions" in findings(copy)


def test_a_refused_repetition_that_counts_is_found(copy: Path) -> None:
    edit(copy, lambda document: document["repetitions"][0].update(validity="refused"))
    assert "repetition 1: refused, yet counted" in findings(copy)


def test_a_planned_repetition_that_does_not_count_is_found(copy: Path) -> None:
    edit(copy, lambda document: document["repetitions"][0].update(counted=False))
    assert "2 of 3 planned repetitions are counted" in findings(copy)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda b: (b / "SHA256SUMS").unlink(), "SHA256SUMS: missing"),
        (lambda b: (b / "SHA256SUMS").write_text("../../etc/passwd\n"), "not a checksum and a file"),
        (lambda b: (b / "SHA256SUMS").write_text(""), "SHA256SUMS: does not list samples.parquet"),
        (lambda b: (b / "compose.yml").unlink(), "compose.yml: missing, but listed in SHA256SUMS"),
        (lambda b: (b / "extra").symlink_to("/etc/passwd"), "extra: a symbolic link"),
        (lambda b: os.mkfifo(b / "extra"), "extra: neither a file nor a folder"),
        (lambda b: (b / "bundle.json").write_text("{"), "not readable as JSON"),
        (lambda b: (b / "bundle.json").write_bytes(b"\xff\xfe"), "not readable as JSON"),
        (lambda b: edit(b, lambda d: d.update(schema_version=9)), "schema_version 9 is newer"),
        (lambda b: edit(b, lambda d: d.pop("plan")), "plan is missing"),
        (lambda b: edit(b, lambda d: d["plan"].update(cells=None)), "bundle.json"),
        (lambda b: edit(b, lambda d: d["repetitions"][0].update(proofs=[{"knob": 1}])), "bundle.json"),
        (lambda b: edit(b, lambda d: d["repetitions"][0].update(proofs="x")), "bundle.json"),
        (lambda b: edit(b, lambda d: d["plan"].update(order=[3])), "bundle.json"),
        (lambda b: edit(b, lambda d: d.update(floor={"tcp_echo_t_us": None})), "bundle.json"),
        (lambda b: edit(b, lambda d: d.update(status="partial", reason="killed")), "the run is partial: killed"),
        (lambda b: (b / "samples.parquet").write_bytes(b"PAR1"), "samples.parquet: cut or damaged"),
        (lambda b: (b / "samples.parquet").unlink(), "samples.parquet: missing"),
    ],
)
def test_damage_of_any_sort_is_a_finding(copy: Path, damage: Callable[[Path], object], told: str) -> None:
    damage(copy)
    assert told in findings(copy)


def test_exit_codes(bundle: Path, tmp_path: Path) -> None:
    done = run("verify", bundle)
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, f"{bundle}: verified")
    (bundle / "compose.yml").write_text("edited")
    assert run("verify", bundle).returncode == 1
    assert run("verify", tmp_path).returncode == 2

# SPDX-License-Identifier: Apache-2.0
"""The commands as a user meets them."""

import csv
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import synthetic
from synthetic import CellSpec, Spec

from analysis.judging import answer, headline
from analysis.judging.grid import Grid
from analysis.reading.bundle import read
from analysis.showing import screen
from analysis.statistics import per_cell
from schema.text import Terminal

ROOT = Path(__file__).parents[2]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "analysis", *map(str, arguments)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | {"TERM": "dumb"}
    )


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_summarise_writes_the_derived_files_prints_the_table_and_says_where(scenario_1: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(scenario_1, tmp_path / "bundle"))
    done = run("summarise", folder)
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("scenario-1: complete", "thesis", "p99", "offered", "reordered", f"{folder}/figures/"):
        assert words in done.stdout
    assert {"summary.csv", "table.md", "figures/cdf-scenario-1-T.png"} <= set(files(folder))


def test_the_sentence_comes_first_and_no_line_of_a_pipe_is_longer_than_120(tmp_path: Path) -> None:
    arms = ("none", "a rather long name of an arm", "another one of about that length")
    cells = tuple(CellSpec(scenario="2", arm=arm, contention="cpu") for arm in arms)
    folder = synthetic.write(tmp_path / "b", Spec(name="study-x", cells=cells, repetitions=5, proofs=False))
    lines = run("summarise", folder).stdout.splitlines()
    found = read(folder)
    sentence = answer.of(found, per_cell.summarise(found)).sentence
    assert " ".join(" ".join(lines).split()).startswith(f"{headline.of(found).text} {sentence}")
    assert max(map(len, lines)) <= 120
    assert not any("\x1b" in line for line in lines)


def test_many_arms_of_which_nothing_can_be_told_are_counted_not_listed(tmp_path: Path) -> None:
    cells = tuple(CellSpec(scenario="2", arm=f"arm {number}", contention="cpu") for number in range(7))
    found = read(synthetic.write(tmp_path / "b", Spec(name="study-x", cells=cells, repetitions=3, messages=100)))
    sentence = answer.of(found, per_cell.summarise(found)).sentence
    assert sentence.startswith("Cannot tell whether any of 6 other arms differs from arm 0 in p99 of O")


def test_the_reason_why_nothing_can_be_told_is_said_where_it_is_that_of_every_arm(tmp_path: Path) -> None:
    cells = tuple(CellSpec(scenario="2", arm=arm, contention="cpu") for arm in ("none", "fifo", "nice"))
    found = read(synthetic.write(tmp_path / "b", Spec(name="study-x", cells=cells, repetitions=3, messages=100)))
    effects = answer.of(found, per_cell.summarise(found)).effects
    one, other = (replace(e, claims=(replace(e.headline, why=why),)) for e, why in zip(effects, "ab", strict=True))
    assert "(a)" not in answer._open([one, other], alone=True)
    assert "(a)" in answer._open([one, one], alone=True)


def test_a_value_that_begins_a_sentence_is_written_as_one_types_it(tmp_path: Path) -> None:
    cells = (CellSpec(scenario="2", arm="none"), CellSpec(scenario="2", arm="clock:step:180s"))
    found = read(synthetic.write(tmp_path / "b", Spec(name="study-x", cells=cells, repetitions=3, messages=100)))
    (effect,) = answer.of(found, per_cell.summarise(found)).effects
    assert answer._effect_sentence(effect).startswith("clock:step:180s: ")


def test_a_sentence_about_several_intervals_names_no_arm_of_one_of_them_as_what_all_are_compared_with(
    tmp_path: Path,
) -> None:
    cells = tuple(
        CellSpec(scenario="2", arm=arm, contention="cpu", interval_ms=interval_ms)
        for arm in ("none", "fifo")
        for interval_ms in (20, 50)
    )
    found = read(synthetic.write(tmp_path / "b", Spec(name="study-x", cells=cells, repetitions=3, messages=100)))
    sentence = answer.of(found, per_cell.summarise(found)).sentence
    assert sentence.startswith(
        "Cannot tell whether any of 2 cells differs from the one it is compared with in p99 of O"
    )


def test_a_narrow_terminal_gets_tables_beneath_each_other_and_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    figures = [f"{n}00.000" for n in range(1, 10)]
    grid = Grid("Latency in ms", ("arm", *(f"statistic {n}" for n in range(1, 10))), 1, (("fifo both", *figures),))
    screen.show(grid, Terminal(width=80))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert all(any(figure in line for line in lines) for figure in figures)
    assert sum("fifo both" in line for line in lines) > 1


def test_the_same_bundle_gives_the_same_bytes(bundle: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(bundle, tmp_path / "elsewhere" / "bundle"))
    assert run("summarise", bundle).returncode == run("summarise", copy).returncode == 0
    assert files(bundle) == files(copy)


def test_summary_csv_is_as_specified(bundle: Path) -> None:
    run("summarise", bundle)
    with (bundle / "summary.csv").open(newline="") as text:
        rows = list(csv.reader(text))
    wanted = "scenario,interval_ms,qos,metric,statistic,value_us,count,confidence_low,confidence_high"
    assert ",".join(rows[0]) == wanted
    statistics = [row[4] for row in rows if row[3] == "T"]
    assert statistics[:4] == ["min", "avg", "p50", "p90"]
    assert "p99" not in statistics
    assert {row[3] for row in rows[1:]} == {"T", "R", "O", "T_intended", "lost", "missed"}
    assert {row[6] for row in rows[1:]} == {"60"}


def test_arms_are_the_last_column(tmp_path: Path) -> None:
    spec = Spec(cells=(CellSpec(arm="fifo"), CellSpec(arm="other")), repetitions=3, messages=10)
    folder = synthetic.write(tmp_path / "bundle", spec)
    run("summarise", folder)
    with (folder / "summary.csv").open(newline="") as text:
        rows = list(csv.reader(text))
    assert rows[0][-1] == "arm"
    assert {row[-1] for row in rows[1:]} == {"fifo", "other"}


def test_a_folder_that_is_no_bundle_is_one_line_and_exit_code_2(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "missing"):
        done = run("summarise", folder)
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        assert str(folder) in done.stderr


def test_the_thesis_stands_under_ours_and_its_faults_are_told(tmp_path: Path) -> None:
    spec = Spec(cells=(CellSpec(scenario="0", interval_ms=100, board="none"),), repetitions=3, messages=10)
    done = run("summarise", synthetic.write(tmp_path / "bundle", spec))
    assert "10.466†" in done.stdout
    assert "† thesis, scenario 0 at 100 ms, QoS 0, O: table 5.2 repeats the 10 ms column" in done.stdout


def test_overlay_writes_a_figure_for_each_pairing(tmp_path: Path) -> None:
    folders = [
        synthetic.write(tmp_path / s, Spec(cells=(CellSpec(scenario=s),), repetitions=3, messages=10)) for s in "36"
    ]
    done = run("overlay", *folders, "--into", tmp_path / "out")
    assert done.returncode == 0
    assert sorted(files(tmp_path / "out")) == [f"cdf-3-6-20ms-qos0-O.{suffix}" for suffix in ("pdf", "png", "svg")]


def test_help_reads_like_a_manual() -> None:
    text = run("--help").stdout
    for words in ("summarise", "overlay", "BUNDLE", "Exit codes"):
        assert words in text

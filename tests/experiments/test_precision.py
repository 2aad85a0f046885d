# SPDX-License-Identifier: Apache-2.0
"""PRECISION: as many repetitions as it takes, looked at only where the plan said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from stand import ROOT, Runner, check_bundle

from experiments import looks
from experiments.errors import BadInputError
from experiments.plan import of_scenario
from experiments.variables import Settings
from schema.looks import FEWEST, USUAL_REPETITIONS

QUICK = ("PLACEMENT=host", "DEVICE=none", "INTERVALS=5", "MESSAGES=40", "WARMUP=0")


def test_precision_raises_the_most_repetitions_unless_the_user_says() -> None:
    assert Settings.parse({"PRECISION": "10%"}).repetitions == USUAL_REPETITIONS
    assert Settings.parse({"PRECISION": "7.5", "REPETITIONS": "12"}).repetitions == 12
    assert Settings.parse({"PRECISION": "7.5"}).precision == 7.5
    assert Settings.parse({}).repetitions == 10


def test_too_few_repetitions_to_look_at_are_refused() -> None:
    with pytest.raises(BadInputError, match=rf"^REPETITIONS=5: PRECISION needs at least {FEWEST}"):
        Settings.parse({"PRECISION": "10%", "REPETITIONS": "5"})


def test_the_looks_and_what_each_may_spend_are_fixed_in_the_plan() -> None:
    record = of_scenario("0", Settings.parse({"PRECISION": "10%"}), "0123abcd").record()["sequential"]
    assert record["precision_percent"] == 10
    assert [look["repetitions"] for look in record["looks"]] == [10, 20, 40]
    assert of_scenario("0", Settings(), "0123abcd").record()["sequential"] is None


def test_a_run_ends_at_the_look_that_found_it_narrow_enough(runner: Runner) -> None:
    code, said = runner.run("run", "0", *QUICK, "PRECISION=100%", "REPETITIONS=12")
    assert code == 0, said
    facts = runner.facts()
    assert [look["repetitions"] for look in facts["plan"]["sequential"]["looks"]] == [6, 12]
    taken = facts["looks"]
    assert taken[-1]["stop"]
    assert "PRECISION=100%" in taken[-1]["reason"]
    assert f"testbed: after {taken[0]['repetitions']} repetitions: {taken[0]['reason']}" in said
    planned = [entry for entry in facts["repetitions"] if entry["rerun_of"] is None]
    assert len(planned) == taken[-1]["repetitions"]
    assert all(entry["repetition"] > 12 for entry in facts["repetitions"] if entry["rerun_of"] is not None)
    check_bundle(runner.bundle)
    done = subprocess.run(
        [sys.executable, "-m", "analysis", "verify", str(runner.bundle)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_a_run_that_never_gets_there_ends_with_its_most_repetitions(runner: Runner) -> None:
    code, said = runner.run("run", "0", *QUICK, "PRECISION=0.01%", "REPETITIONS=6")
    assert code == 0, said
    assert "REPETITIONS=6 are used up" in runner.facts()["looks"][-1]["reason"], said


def test_a_look_that_fails_stops_no_run_and_is_told(tmp_path: Path) -> None:
    seen = looks.look(tmp_path)
    assert not seen["stop"]
    assert "bundle.json" in seen["error"]
    assert seen["reason"] == f"the look failed: {seen['error']}"

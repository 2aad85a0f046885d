# SPDX-License-Identifier: Apache-2.0
"""Bundles that an older revision left behind are readable for ever: both programs, every command that takes one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from experiments import differences, families
from experiments.replay import Recorded
from schema.upgrades import upgraded

ROOT = Path(__file__).parents[1]
BUNDLES = sorted((ROOT / "tests" / "data").glob("schema-1-*"))


@pytest.fixture(params=BUNDLES, ids=lambda path: path.name)
def older(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A copy, for what is derived is written into it."""
    return Path(shutil.copytree(request.param, tmp_path / "bundle"))


def analysis(*arguments: object) -> str:
    command = [sys.executable, "-m", "analysis", *map(str, arguments)]
    environment = os.environ | {"TERM": "dumb"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_it_verifies_as_it_came_and_once_it_was_summarised_and_reported(older: Path) -> None:
    assert analysis("verify", older).endswith(": verified\n")
    assert "Latency in ms" in analysis("summarise", older)
    analysis("report", older)
    assert "byte for byte" in analysis("verify", older)


def test_it_compares_with_itself_and_a_replay_of_it_can_be_judged(older: Path) -> None:
    assert "B against A" in analysis("compare", older, older)
    assert "claims were reproduced, 0 contradicted" in analysis("reproduced", older, older)


def test_what_it_left_unsaid_is_what_its_family_says_of_itself() -> None:
    said = {"schema_version": 1}
    assert upgraded(said, 2) == {"schema_version": 2, **families.named("control").record()}


def test_its_replay_is_planned_as_it_ran(older: Path) -> None:
    recorded = Recorded.read(older)
    planned = recorded.plan("89abcdef")
    assert [list(pair) for pair in planned.order()] == recorded.facts.plan.order
    assert {cell.placement for cell in planned.cells} == {"host"}
    assert {cell.conditions.broker for cell in planned.cells} == {"amqtt"}
    assert differences.lines(recorded.facts, differences.here(recorded.facts, planned, {}))

# SPDX-License-Identifier: Apache-2.0
"""Tests that need an engine never pass in silence where there is none."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from stand import ROOT


def run_without_engine(**environment: str) -> subprocess.CompletedProcess[str]:
    """Run some tests that need an engine on a machine without one."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/integration/test_stand_file.py"]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False,
        env=os.environ | {"DOCKER_HOST": "unix:///nonexistent.sock"} | environment,
    )  # fmt: skip


@pytest.mark.parametrize("required", ["", "0"])
def test_without_an_engine_they_are_skipped_and_the_summary_says_how_many(required: str) -> None:
    done = run_without_engine(REQUIRE_ENGINE=required)
    assert done.returncode == 0
    assert "NOT TESTED ON REAL CONTAINERS" in done.stdout
    assert "7 tests were skipped, because no container engine answers" in done.stdout


def test_with_require_engine_they_fail_instead() -> None:
    done = run_without_engine(REQUIRE_ENGINE="1")
    assert done.returncode == 1
    assert "REQUIRE_ENGINE=1, but no container engine answers" in done.stdout
    assert "skipped" not in done.stdout

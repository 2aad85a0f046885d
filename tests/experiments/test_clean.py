# SPDX-License-Identifier: Apache-2.0
"""`make clean` where it cannot know what is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from stand import Runner

from experiments import tidy

FAR = {"DOCKER_HOST": "unix:///nonexistent.sock"}


def test_without_an_answer_from_the_engine_it_says_so_and_fails(runner: Runner) -> None:
    code, said = runner.run("clean", **FAR)
    assert code == 1
    assert said.startswith(
        "testbed: no container engine answers, so containers, networks and volumes of ours may still"
    )
    assert "make clean" in said
    assert len(said.splitlines()) == 1


def test_where_no_engine_is_installed_nothing_can_be_left(runner: Runner, tmp_path: Path) -> None:
    code, said = runner.run("clean", PATH=str(tmp_path))
    if "removed" in said or "left behind\n" not in said:
        pytest.skip("an engine answers on its default socket")
    assert code == 0


def test_no_step_prevents_the_next() -> None:
    taken = []

    def fail() -> None:
        taken.append("second")
        raise OSError(28, "No space left on device")

    failed = tidy.each([
        ("first", lambda: taken.append("first")), ("second", fail), ("third", lambda: taken.append("third"))
    ])  # fmt: skip
    assert taken == ["first", "second", "third"]
    assert failed == ["second: [Errno 28] No space left on device"]

# SPDX-License-Identifier: Apache-2.0
"""The observer as a program: one request a line, one reply a line, and nothing that kills it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from stand import Program

NOBODY = 2**22 + 1
"""Above every kernel's largest process id."""


class Observer:
    def __init__(self, program: Program) -> None:
        self.program = program

    def ask(self, **request: Any) -> dict[str, Any]:
        self.program.send(json.dumps(request))
        reply: dict[str, Any] = json.loads(self.program.said("{"))
        return reply

    def prove(self, pid: int, file: str | None = None) -> dict[str, Any]:
        request = {"services": {"broker": pid}, "containers": False, "files": {"broker": file}}
        state: dict[str, Any] = self.ask(do="prove", **request)["services"]["broker"]
        return state


@pytest.fixture
def observer(program: Callable[..., Program]) -> Observer:
    return Observer(program("experiments.observer"))


@pytest.fixture
def sleeper() -> Iterator[int]:
    with subprocess.Popen(["sleep", "1000"]) as process:
        yield process.pid
        process.kill()


def test_a_setting_is_applied_and_then_proved(observer: Observer, sleeper: int) -> None:
    before = observer.prove(sleeper)
    assert [(thread["policy"], thread["nice"]) for thread in before["threads"]] == [("SCHED_OTHER", os.nice(0))]
    assert before["connections"] == []
    assert {"weight", "quota", "rt_budget_us", "configuration"} <= before.keys()
    applied = {"do": "apply", "pid": sleeper, "rt_budget_us": 0, "containers": False}
    assert observer.ask(**applied, setting="nice", value=7) == {"error": None}
    cpu = min(os.sched_getaffinity(0))
    assert observer.ask(**applied, setting="cpus", value=[cpu]) == {"error": None}
    (thread,) = observer.prove(sleeper)["threads"]
    assert (thread["nice"], thread["cpus"], thread["name"]) == (7, [cpu], "sleep")


def test_a_setting_the_kernel_refuses_is_an_answer(observer: Observer, sleeper: int) -> None:
    reply = observer.ask(do="apply", pid=sleeper, setting="cpus", value=[100_000], rt_budget_us=0, containers=False)
    assert reply == {"error": f"Invalid argument (cpus on process {sleeper})"}


def test_sampling_runs_from_start_to_stop(observer: Observer, sleeper: int) -> None:
    services = {"broker": sleeper}
    assert observer.ask(do="start", services=services, scope={"detailed": ["broker"]}, containers=False) == {}
    observer.prove(sleeper)
    told = observer.ask(do="stop")
    assert {row["service"] for row in told["rows"]} == {"host", "broker"}
    assert told["cpu_s"].keys() == {"host", "broker"}
    assert told["observer_cpu_s"] >= 0
    assert observer.ask(do="stop") == {"rows": [], "cpu_s": {}}


@pytest.mark.parametrize("containers", [False, True])
@pytest.mark.parametrize(
    "request_",
    [
        {"do": "apply", "pid": NOBODY, "setting": "nice", "value": 1, "rt_budget_us": 0},
        {"do": "apply", "pid": NOBODY, "setting": "fifo", "value": 90, "rt_budget_us": 400_000},
        {"do": "start", "services": {"broker": NOBODY}, "scope": {}},
    ],
)
def test_a_process_that_is_not_there_is_an_answer_too(
    observer: Observer, sleeper: int, request_: dict[str, Any], containers: bool
) -> None:
    assert observer.ask(**request_, containers=containers)["error"]
    assert observer.prove(NOBODY)["error"]
    assert observer.prove(sleeper)["threads"], "it lives on"


@pytest.mark.parametrize("request_", [{"do": "levitate"}, {"do": "prove"}, {"do": "start", "services": 7}])
def test_a_fault_of_its_own_is_an_answer_with_the_reason(observer: Observer, request_: dict[str, Any]) -> None:
    assert "Error" in observer.ask(**request_)["error"]
    assert observer.ask(do="release") == {}, "it lives on"


def test_release_without_anything_raised_changes_nothing(observer: Observer) -> None:
    assert observer.ask(do="release") == {}


def test_the_end_of_its_input_ends_it(observer: Observer) -> None:
    assert observer.ask(do="stop") == {"rows": [], "cpu_s": {}}
    observer.program.end_input()
    assert observer.program.wait() == 0


def test_the_configuration_is_the_file_its_process_was_told(observer: Observer, tmp_path: Path) -> None:
    file, waits = tmp_path / "broker.conf", tmp_path / "waits.py"
    file.write_text("max_qos 1\n")
    waits.write_text("print('here', flush=True); input()")
    for words, seen in (
        (["-c", str(file)], "max_qos 1\n"),
        ([f"-Dconfiguration={file}"], "max_qos 1\n"),
        ([f"xml:{file}"], "max_qos 1\n"),
        (["-c", str(tmp_path / "no.conf")], None),
        ([f"{file}.old"], None),
        ([], None),
    ):
        command, pipe = [sys.executable, str(waits), *words], subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == b"here\n", "until then its command line may still be its parent's"
            assert observer.prove(process.pid, str(file))["configuration"] == seen, words
            process.communicate(b"\n")

# SPDX-License-Identifier: Apache-2.0
"""Whole runs as plain processes: what a machine without an engine gets, and what is left when a run is cut short."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from stand import ROOT, Runner, alive, check_bundle, children, eventually

from experiments import brokers, plan
from experiments.brokers import amqtt
from experiments.errors import BadInputError, StandError
from experiments.families.control.processes import ControlAsProcesses
from experiments.variables import Settings

HOST = ("PLACEMENT=host", "REPETITIONS=1", "MESSAGES=20", "INTERVALS=10")
LONG = ("PLACEMENT=host", "REPETITIONS=500", "MESSAGES=20", "INTERVALS=5")


@pytest.mark.parametrize(
    ("scenario", "swaps", "board"),
    [
        ("1", ["QOS=0,2"], "model"),
        ("0", ["TIMEOUT_MS=2000"], "none"),
        ("1", ["BROKER=amqtt", "DEVICE=none"], "none"),
    ],
)
def test_a_run_leaves_a_complete_bundle_of_ok_samples(
    runner: Runner, scenario: str, swaps: list[str], board: str
) -> None:
    code, said = runner.run("run", scenario, *HOST, *swaps)
    assert code == 0, said
    # Said in the first line and in the bundle: this was not measured in containers.
    assert said.startswith("testbed: placement host (plain processes): PLACEMENT=host\n")
    facts = runner.facts()
    assert facts["notice"].startswith("placement host")
    assert (facts["status"], facts["reason"], facts["placement"], facts["engine"]) == ("complete", None, "host", None)
    assert facts["floor"]["tcp_echo_t_us"]["p50"] > 0
    check_bundle(runner.bundle)
    assert {(row["status"], row["board"]) for row in runner.samples()} == {("ok", board)}


def test_without_an_engine_the_same_command_runs_as_plain_processes(runner: Runner) -> None:
    code, said = runner.run("run", "0", *HOST[1:], DOCKER_HOST="unix:///nonexistent.sock")
    assert code == 0, said
    assert said.startswith("testbed: placement host (plain processes): no container engine answers\n")


def kill_9(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


def test_kill_9_leaves_no_process_and_a_readable_partial_bundle(runner: Runner) -> None:
    process = runner.launch("1", *LONG)
    runner.wait_for_a_repetition(process)
    ours = children(process.pid)
    assert len(ours) >= 4, "broker, Pi, board and control loop"
    kill_9(process)
    eventually(lambda: not alive(ours), "the end of every process we started")
    assert runner.facts()["status"] == "partial"
    check_bundle(runner.bundle)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_tidies_up_and_says_so(runner: Runner, number: signal.Signals) -> None:
    process = runner.launch("1", *LONG)
    runner.wait_for_a_repetition(process)
    ours = children(process.pid)
    process.send_signal(number)
    said, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert "testbed: partial: interrupted by the user" in said
    assert not alive(ours)
    facts = runner.facts()
    assert (facts["status"], facts["reason"]) == ("partial", "interrupted by the user")
    assert facts["repetitions"][-1]["validity"] in {"interrupted", "valid", "noisy"}
    check_bundle(runner.bundle)


def test_an_impatient_user_who_presses_ctrl_c_twice_gets_the_same(runner: Runner) -> None:
    process = runner.launch("1", *LONG)
    runner.wait_for_a_repetition(process)
    ours = children(process.pid)
    for _ in range(3):
        process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=20)
    assert process.returncode == 130, said
    assert not alive(ours)
    check_bundle(runner.bundle)


def test_a_full_disk_is_said_in_a_line_and_leaves_a_readable_bundle(runner: Runner) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, limit[1]))  # inherited: no file of the run gets longer
    try:
        code, said = runner.run("run", "0", "PLACEMENT=host", "INTERVALS=1", "MESSAGES=1500", "REPETITIONS=3")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert code == 1
    assert "File too large" in said
    assert "Traceback" not in said
    assert runner.facts()["status"] == "partial"
    check_bundle(runner.bundle)


def test_two_runs_with_one_seed_have_one_order(runner: Runner) -> None:
    orders: list[Any] = []
    for _ in range(2):
        code, said = runner.run(
            "run", "0", "PLACEMENT=host", "INTERVALS=1,2,3", "MESSAGES=1", "WARMUP=0", "REPETITIONS=2", "SEED=7"
        )
        assert code == 0, said
        orders.append(runner.facts()["plan"]["order"])
        ran = [[entry["cell"], entry["repetition"]] for entry in runner.facts()["repetitions"]]
        assert ran[:6] == orders[-1]
    assert orders[0] == orders[1]


def test_a_folder_that_cannot_be_written_is_said_in_a_line(runner: Runner) -> None:
    (runner.folder / "results").write_text("a file, not a folder")
    code, said = runner.run("run", "0", *HOST)
    assert code != 0
    assert "Traceback" not in said
    assert os.listdir(runner.folder) == ["results"]  # noqa: PTH208


def test_a_broker_that_cannot_start_says_its_exit_status_and_last_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ["sh", "-c", "echo starting; echo 'Error: Address already in use' >&2; exit 3"]
    monkeypatch.setattr(brokers.parse("amqtt").__class__, "host_command", lambda *_, **__: command)
    (tmp_path / "logs").mkdir()
    stand = ControlAsProcesses()
    conditions = plan.of_scenario("0", Settings(broker="amqtt"), "0", "host").cells[0].conditions
    stand.check(conditions)
    stand.prepare(tmp_path, "0")
    stand.conditions = conditions
    with pytest.raises(StandError, match=r"broker \(amqtt\) ended with exit status 3: Error: Address already in use"):
        stand.refresh()
    stand.down()


def test_a_broker_whose_program_is_missing_is_refused_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(amqtt, "_PROGRAM", tmp_path / "amqtt")
    with pytest.raises(BadInputError, match=r"BROKER=amqtt: .*amqtt is not there; remove \.venv and run make again"):
        ControlAsProcesses().check(plan.of_scenario("0", Settings(broker="amqtt"), "0", "host").cells[0].conditions)


def pid_of(process: subprocess.Popen[str], words: str) -> int:
    """The process of a run whose command line has these words, as soon as there is one."""

    def look() -> list[int]:
        return [pid for pid in children(process.pid) if words in _command(pid)]

    return eventually(look, f"a process {words}")[0]


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""  # it has ended meanwhile


SERVICES = {
    "broker": "amqtt", "pi": "-m rpi", "control-loop": "clients.control_loop", "observer": "experiments.observer",
    "board": "firmware.model",
}  # fmt: skip


@pytest.mark.parametrize("service", SERVICES)
def test_a_service_killed_in_a_repetition_costs_that_one_and_the_run_goes_on(runner: Runner, service: str) -> None:
    process = runner.launch("1", "PLACEMENT=host", "REPETITIONS=3", "MESSAGES=150", "INTERVALS=10", "BROKER=amqtt")
    runner.wait_for_a_repetition(process)
    pid = pid_of(process, SERVICES[service])
    os.kill(pid, signal.SIGKILL)
    said, _ = process.communicate(timeout=180)
    assert "Traceback" not in said
    facts = runner.facts()
    check_bundle(runner.bundle)
    failed = [entry for entry in facts["repetitions"] if entry["validity"] == "interrupted"]
    assert len(failed) == 1, said
    assert service in failed[0]["reasons"][0] or service == "broker"
    assert failed[0]["counts"]["offered"] in {0, 150}
    # Run again at the end: nothing is missing.
    assert (process.returncode, facts["status"]) == (0, "complete"), said
    assert any(entry["rerun_of"] == failed[0]["repetition"] and entry["counted"] for entry in facts["repetitions"])


def test_a_hangup_ends_a_run_in_order(runner: Runner) -> None:
    process = runner.launch("1", *LONG)
    runner.wait_for_a_repetition(process)
    ours = children(process.pid)
    process.send_signal(signal.SIGHUP)
    said, _ = process.communicate(timeout=20)
    assert process.returncode == 130, said
    assert not alive(ours)
    assert runner.facts()["reason"] == "interrupted by the user"
    check_bundle(runner.bundle)


def test_what_a_service_started_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    stand = ControlAsProcesses()
    stand._folder = tmp_path
    process = stand._start("workers", ["sh", "-c", "sleep 300 & exec sleep 300"], cpus=stand.host_cpus)
    worker = eventually(lambda: children(process.pid), "a worker")
    stand.down()
    eventually(lambda: not alive({process.pid, *worker}), "the end of both")


RUNNER = """
import pathlib, sys, time
from experiments.families.control.processes import ControlAsProcesses
stand = ControlAsProcesses()
stand._folder = pathlib.Path(sys.argv[1])
for name in ("stopped", "workers"):
    stand._start(name, ["sh", "-c", "sleep 300 & exec sleep 300"], cpus=stand.host_cpus)
stand._stop("stopped")
print("up", flush=True)
time.sleep(300)
"""


def test_what_a_service_started_ends_with_a_runner_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    process = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    eventually(lambda: len(children(process.pid)) >= 3, "service, worker, reaper")
    ours = children(process.pid)
    kill_9(process)
    process.stdout.close()
    eventually(lambda: not alive(ours), "the end of all, workers too")

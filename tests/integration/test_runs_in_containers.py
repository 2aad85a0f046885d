# SPDX-License-Identifier: Apache-2.0
"""Scenarios 0 and 1 on real containers, and what is left when something is killed on the way."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from containers import DockerRun, docker, left_of
from stand import ROOT, Runner, check_bundle, eventually, samples_of

pytestmark = pytest.mark.engine

SHORT = ("PLACEMENT=docker", "REPETITIONS=1", "MESSAGES=50", "INTERVALS=20,10")
LONG = ("REPETITIONS=1", "MESSAGES=3000", "INTERVALS=10")


def run_to_the_end(runner: Runner, *arguments: str) -> Path:
    code, said = runner.run("run", *arguments)
    assert code == 0, said
    return runner.bundle.resolve()


@pytest.fixture(scope="module")
def scenario_1(shared_runner: Runner) -> Path:
    """The bundle of a short run of scenario 1; not to be written to."""
    return run_to_the_end(shared_runner, "1", *SHORT)


@pytest.fixture(scope="module")
def scenario_0(shared_runner: Runner, scenario_1: Path) -> Path:
    del scenario_1  # runs before, in the same folder
    return run_to_the_end(shared_runner, "0", *SHORT, "QOS=0,2")


def facts_of(bundle: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((bundle / "bundle.json").read_text())
    return facts


def test_scenario_1_answers_every_request_from_a_simulated_board(scenario_1: Path) -> None:
    facts = facts_of(scenario_1)
    assert (facts["status"], facts["placement"], facts["notice"]) == ("complete", "docker", None)
    check_bundle(scenario_1)
    rows = samples_of(scenario_1)
    assert {(row["status"], row["board"]) for row in rows} == {("ok", "simavr")}
    assert {row["interval_ms"] for row in rows} == {10, 20}
    # The wire alone takes this: 7 bytes there, 14 back.
    assert min(row["r_us"] for row in rows) > 3500


def test_scenario_0_answers_every_request_at_every_qos_without_a_board(scenario_0: Path) -> None:
    check_bundle(scenario_0)
    rows = samples_of(scenario_0)
    assert {(row["status"], row["board"], row["qos"]) for row in rows} == {("ok", "none", 0), ("ok", "none", 2)}


def test_the_bundle_says_what_ran(scenario_1: Path) -> None:
    facts = facts_of(scenario_1)
    assert facts["engine"]["version"]
    assert facts["engine"]["compose"].lstrip("v").startswith("2")
    assert {"broker", "control-loop", "pi", "board"} <= set(facts["images"])
    for image in facts["images"].values():
        assert re.fullmatch("sha256:[0-9a-f]{64}", image["id"])
        assert image["origin"] in {"registry", "debian"}
        docker("image", "inspect", image["id"])
    assert "mosquitto" in facts["images"]["broker"]["version"]
    assert facts["floor"]["tcp_echo_t_us"]["count"] == 100
    assert all(entry["control_loop"]["malformed"] == 0 for entry in facts["repetitions"])


def test_every_services_memory_limit_is_read_back_in_every_repetition(scenario_1: Path) -> None:
    file = str(scenario_1 / "compose.yml")
    said = docker("compose", "--file", file, "--profile", "*", "config", "--format", "json")
    limits = {name: int(service["mem_limit"]) for name, service in json.loads(said)["services"].items()}
    for entry in facts_of(scenario_1)["repetitions"]:
        proofs = [proof for proof in entry["proofs"] if proof["knob"] == "memory"]
        read = {proof["service"]: proof["observed"]["value"] for proof in proofs}
        assert read == {name: f"{limits[name]} bytes" for name in ("broker", "control-loop", "pi", "board")}


def test_the_compose_file_as_run_is_valid_and_kept(scenario_1: Path) -> None:
    docker("compose", "--file", str(scenario_1 / "compose.yml"), "config", "--quiet")
    assert {"broker.log", "pi.log", "board.log", "control-loop.log"} <= {
        path.name for path in (scenario_1 / "logs").iterdir()
    }


def test_nothing_is_left_of_a_run_that_ended(scenario_1: Path, scenario_0: Path) -> None:
    for bundle in (scenario_1, scenario_0):
        assert left_of(f"testbed-{facts_of(bundle)['plan']['run']}") == []


def test_scenario_1_without_a_device_is_scenario_0(scenario_0: Path, runner: Runner) -> None:
    without = run_to_the_end(runner, "1", *SHORT, "DEVICE=none", "QOS=0,2")
    cells = [facts_of(bundle)["plan"]["cells"] for bundle in (without, scenario_0)]
    for cell in (*cells[0], *cells[1]):
        del cell["scenario"]
    assert cells[0] == cells[1]
    services = [
        json.loads(docker("compose", "--file", str(bundle / "compose.yml"), "config", "--format", "json"))["services"]
        for bundle in (without, scenario_0)
    ]
    for each in services:
        for service in each.values():
            # The run's id, and a path from the bundle: from where it is read, the checkout is unknown.
            service["labels"] = service["secrets"] = service["build"] = None
    assert services[0] == services[1]
    assert {(row["status"], row["board"]) for row in samples_of(without)} == {("ok", "none")}


def test_ctrl_c_in_a_repetition_leaves_a_partial_bundle_and_nothing_running(runner: Runner) -> None:
    run = DockerRun(runner, "1", *LONG)
    run.wait_for_cycle(20)
    check_confinement(run)
    # Cleaning up meanwhile leaves it alone.
    clean = subprocess.run(
        [sys.executable, "-m", "experiments", "clean"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (clean.returncode, clean.stdout) == (1, "")
    assert f"another run is measuring on this host: process {run.process.pid} of " in clean.stderr
    run.process.send_signal(signal.SIGINT)
    code, said = run.end()
    assert code == 130, said
    assert "Traceback" not in said
    assert left_of(run.project) == []
    facts = runner.facts()
    assert (facts["status"], facts["reason"]) == ("partial", "interrupted by the user")
    check_bundle(runner.bundle)


def check_confinement(run: DockerRun) -> None:
    """What the engine really gave the running containers."""
    containers = run.inspect()
    assert {"broker", "control-loop", "pi", "board"} <= set(containers)
    for service, container in containers.items():
        host = container["HostConfig"]
        assert host["ReadonlyRootfs"], service
        assert host["CapDrop"] == ["ALL"], service
        assert "no-new-privileges:true" in host["SecurityOpt"], service
        assert not host["Privileged"], service
        assert sorted(host["CapAdd"] or []) == (["SYS_PTRACE"] if service == "observer" else []), service
        assert not [mount for mount in host["Binds"] or [] if not mount.endswith(":ro")], service
        assert host["Memory"] > 0, service
        assert 0 < host["PidsLimit"] <= 256, service
        assert not any(container["NetworkSettings"]["Ports"].values()), service
        status = Path(f"/proc/{container['State']['Pid']}/status")
        if service != "observer" and status.exists():
            assert "Uid:\t0\t" not in status.read_text(), service


@pytest.fixture
def stranger(shared_runner: Runner) -> Iterator[str]:
    """A container that is none of ours."""
    del shared_runner
    command = ["run", "--detach", "--rm", "--network", "none", "--entrypoint", "sleep", "testbed/client", "600"]
    container = docker(*command).strip()
    yield container
    docker("rm", "--force", container)


def test_kill_9_leaves_a_readable_bundle_and_clean_removes_what_is_ours_alone(
    scenario_1: Path, runner: Runner, stranger: str
) -> None:
    del scenario_1  # its run built the images
    run = DockerRun(runner, "1", *LONG)
    run.wait_for_cycle(5)
    run.process.kill()
    run.process.wait()
    assert runner.facts()["status"] == "partial"
    check_bundle(runner.bundle)
    left = left_of(run.project)
    assert len(left) >= 5, "containers, network and volume"
    code, said = runner.run("run", "0", "PLACEMENT=host", "MESSAGES=1")
    assert code == 1, "it would run beside what is left"
    assert f"testbed: {run.project}: left by a run that was killed" in said
    assert "`make clean` removes it" in said
    code, said = runner.run("clean")
    assert code == 0
    assert f"testbed: removed {run.project}" in said
    assert left_of(run.project) == []
    assert docker("inspect", "--format", "{{.State.Running}}", stranger).strip() == "true"
    code, said = runner.run("clean")
    assert (code, said) == (0, "testbed: nothing was left behind\n")
    assert (runner.bundle / "bundle.json").exists()


@pytest.mark.parametrize("service", ["broker", "pi", "board", "control-loop", "observer"])
def test_a_container_killed_in_a_repetition_costs_that_one_and_the_run_goes_on(runner: Runner, service: str) -> None:
    run = DockerRun(runner, "1", "REPETITIONS=2", "MESSAGES=300", "INTERVALS=10", "WARMUP=0")
    run.wait_for_cycle(10)
    docker("kill", run.container(service))
    code, said = run.end()
    assert "Traceback" not in said
    facts = runner.facts()
    broken = facts["repetitions"][0]
    assert (broken["validity"], broken["counted"], broken["counts"]["offered"]) == ("interrupted", False, 300), said
    assert broken["reasons"][0]
    if service != "observer":  # which the cycles do not need
        assert broken["counts"]["lost"] > 0
    # The rest ran, and what it cost was run again.
    assert (code, facts["status"]) == (0, "complete"), said
    assert any(each["rerun_of"] == broken["repetition"] and each["counted"] for each in facts["repetitions"])
    check_bundle(runner.bundle)
    assert left_of(run.project) == []


@pytest.mark.parametrize(
    ("scenario", "do", "service", "judged"),
    [
        ("1", "pause", "pi", ("interrupted", "pi is frozen")),
        ("2", "kill", "stressor", ("refused", "stressor has stopped; see logs/stressor.log")),
    ],
)
def test_what_was_not_as_its_label_says_is_said_and_run_again(
    runner: Runner, scenario: str, do: str, service: str, judged: tuple[str, str]
) -> None:
    run = DockerRun(runner, scenario, "REPETITIONS=1", "MESSAGES=300", "INTERVALS=10", "WARMUP=0")
    run.wait_for_cycle(10)
    docker(do, run.container(service))
    code, said = run.end()
    facts = runner.facts()
    first = facts["repetitions"][0]
    assert (first["validity"], first["reasons"][0]) == judged, said
    assert (code, facts["status"]) == (0, "complete"), said
    check_bundle(runner.bundle)
    assert left_of(run.project) == []


def test_a_runner_told_to_stop_ends_as_by_ctrl_c(runner: Runner) -> None:
    run = DockerRun(runner, "0", *LONG)
    eventually((runner.bundle / "compose.yml").exists, "the stand on its way up", 60)
    run.process.send_signal(signal.SIGTERM)  # in the middle of Compose's work
    code, said = run.end()
    assert code == 130, said
    assert left_of(run.project) == []
    assert runner.facts()["reason"] == "interrupted by the user"

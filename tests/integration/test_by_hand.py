# SPDX-License-Identifier: Apache-2.0
"""`docker compose` by hand, as its manual teaches: after `make images`, without the runner."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from containers import docker
from stand import ROOT, eventually

from experiments import by_hand, engine, images
from experiments.cpus import cpu_sets

pytestmark = pytest.mark.engine

PROJECT = "testbed-byhand"


@pytest.fixture(scope="module")
def compose(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """`docker compose` with the `.env` that `make images` writes, in a project of its own."""
    client = engine.connect()
    env = by_hand.write(tmp_path_factory.mktemp("env"), client, images.ensure(client))

    def run(*arguments: str) -> str:
        command = ["docker", "compose", "--env-file", str(env), "--project-name", PROJECT, *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=clean_environment())
        assert done.returncode == 0, done.stderr
        return done.stdout

    yield run
    run("--profile", "*", "down", "--volumes")


def clean_environment() -> dict[str, str]:
    ours = {"BASE_IMAGE", "BROKER_IMAGE", "HOST_CPUS", "PI_CPUS"}
    return {name: value for name, value in os.environ.items() if name not in ours}


def inspect(service: str) -> dict[str, Any]:
    said: list[dict[str, Any]] = json.loads(docker("inspect", f"{PROJECT}-{service}-1"))
    return said[0]


def test_up_waits_until_the_stand_answers_and_a_loop_runs(compose: Any) -> None:
    compose("up", "--detach", "--wait")
    assert {inspect(name)["State"]["Health"]["Status"] for name in ("broker", "pi", "board")} == {"healthy"}
    said = compose("run", "--rm", "-T", "control-loop", "--interval-ms", "20", "--messages", "20")
    assert "answered by board simavr" in said


def test_host_and_pi_have_cpus_of_their_own(compose: Any) -> None:
    compose("up", "--detach", "--wait")
    host_cpus, pi_cpus = cpu_sets()
    assert [inspect(name)["HostConfig"]["CpusetCpus"] for name in ("broker", "pi", "board")] == [
        host_cpus, pi_cpus, pi_cpus,
    ]  # fmt: skip


def test_memory_limits_are_in_force(compose: Any) -> None:
    compose("up", "--detach", "--wait")
    for name in ("broker", "pi", "board"):
        state = inspect(name)
        groups = Path(f"/proc/{state['State']['Pid']}/cgroup").read_text().splitlines()
        paths = {line.split(":")[1]: line.split(":")[2].lstrip("/") for line in groups}
        v1 = Path("/sys/fs/cgroup/memory") / paths.get("memory", "") / "memory.limit_in_bytes"
        v2 = Path("/sys/fs/cgroup") / paths.get("", "") / "memory.max"
        limit = int((v1 if "memory" in paths else v2).read_text())
        assert limit == state["HostConfig"]["Memory"] > 0, name


@pytest.fixture
def budget() -> Iterator[None]:
    """What compose/priority.yml says to do, as root, where the kernel has RT_GROUP_SCHED and cgroup v1."""
    file = Path("/sys/fs/cgroup/cpu/docker/cpu.rt_runtime_us")
    before = file.read_text() if file.exists() else None
    if before is not None:
        file.write_text("900000")
    yield
    if before is not None:
        file.write_text(before)


@pytest.mark.usefixtures("budget")
def test_the_override_gives_broker_and_client_real_time_priority_and_none_of_roots_rights(compose: Any) -> None:
    priority = ("--file", "docker-compose.yml", "--file", "compose/priority.yml")
    compose(*priority, "up", "--detach", "--build", "--wait", "broker")
    compose(*priority, "run", "--detach", "--build", "--name", f"{PROJECT}-control-loop-1", "control-loop", "--jobs")
    try:
        for service, user in (("broker", 1883), ("control-loop", 65534)):
            pid = inspect(service)["State"]["Pid"]
            eventually(lambda pid=pid, user=user: f"Uid:\t{user}\t{user}" in status(pid), f"{service} as {user}")  # type: ignore[misc]
            assert f"Gid:\t{user}\t{user}" in status(pid)
            assert "CapEff:\t0000000000000000" in status(pid)
            assert "NoNewPrivs:\t1" in status(pid)
            assert (os.sched_getscheduler(pid), os.sched_getparam(pid).sched_priority) == (os.SCHED_FIFO, 90)
    finally:
        docker("rm", "--force", f"{PROJECT}-control-loop-1")  # of `run`, which `down` leaves
        compose(*priority, "--profile", "*", "down")


def status(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text()


def test_the_override_needs_nothing_of_a_published_brokers_image(tmp_path: Path) -> None:
    """Not even a C library: chrt and setpriv are not in every image, Alpine's for one."""
    base, ours = f"{PROJECT}-bare", f"{PROJECT}-priority"
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    docker("build", "--quiet", "--tag", base, str(tmp_path))
    found = images.ensure(engine.connect()).base.argument
    arguments = ("--build-arg", f"BROKER_IMAGE={base}", "--build-arg", f"BASE_IMAGE={found}")
    file = str(ROOT / "experiments" / "brokers" / "mosquitto" / "Dockerfile")
    try:
        docker("build", "--quiet", "--tag", ours, *arguments, "--target", "priority", "--file", file, str(ROOT))
        run = ["docker", "run", "--rm", "--network", "none", "--entrypoint", "/usr/local/bin/first", ours]
        done = subprocess.run(run, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (2, "usage: first PRIORITY USER-ID PROGRAM [ARGUMENT]...\n")
    finally:
        docker("image", "rm", "--force", base, ours)

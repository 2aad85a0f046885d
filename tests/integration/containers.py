# SPDX-License-Identifier: Apache-2.0
"""A run in containers that a test interferes with, and what the engine says of it."""

from __future__ import annotations

import json
import subprocess
from typing import Any

from stand import Runner, eventually

WATCHER = """
import sys, time
from clients.connection import Connection, attempt_timeouts_s
from clients.way import Way
from clients.wire import Request
run, sequence = sys.argv[1], int(sys.argv[2])
def look(message):
    request = Request.decode(bytes(message.payload))
    if request.repetition and request.sequence >= sequence:
        sys.exit()
for timeout_s in attempt_timeouts_s():
    try:
        connection = Connection(Way("broker"), client_id="watcher", on_message=look)
        connection.open(timeout_s=timeout_s)
        connection.subscribe(f"testbed/{run}/#", 0, timeout_s=1)
        while True:
            connection.wait(time.monotonic_ns() + 10**9)
    except (OSError, ValueError):
        time.sleep(0.01)
"""
"""Ends as soon as the control loop has come so far in a repetition."""


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True, timeout=60).stdout


def left_of(project: str) -> list[str]:
    """Containers, networks and volumes of a Compose project."""
    label = f"label=com.docker.compose.project={project}"
    found = docker("ps", "--all", "--quiet", "--filter", label).split()
    found += docker("network", "ls", "--quiet", "--filter", label).split()
    return found + docker("volume", "ls", "--quiet", "--filter", label).split()


class DockerRun:
    """A run in containers, up to the moment at which a test interferes."""

    def __init__(self, runner: Runner, *arguments: str) -> None:
        self.runner = runner
        self.process = runner.launch(*arguments, "PLACEMENT=docker")
        self.run = str(runner.facts()["plan"]["run"])
        self.project = f"testbed-{self.run}"

    def container(self, service: str) -> str:
        return f"{self.project}-{service}-1"

    def wait_for_cycle(self, sequence: int) -> None:
        """Wait until a repetition is in full swing."""
        pi = self.container("pi")
        eventually(lambda: self._alive() and docker("ps", "--quiet", "--filter", f"name={pi}"), "a Pi", 120)
        docker("exec", pi, "python3", "-c", WATCHER, self.run, str(sequence))

    def inspect(self) -> dict[str, dict[str, Any]]:
        """What the engine says of each container, by service."""
        ids = docker("ps", "--quiet", "--filter", f"label=com.docker.compose.project={self.project}").split()
        said: list[dict[str, Any]] = json.loads(docker("inspect", *ids))
        return {each["Config"]["Labels"]["com.docker.compose.service"]: each for each in said}

    def end(self) -> tuple[int, str]:
        said, _ = self.process.communicate(timeout=120)
        return self.process.returncode, said

    def _alive(self) -> bool:
        assert self.process.poll() is None, self.process.communicate()[0]
        return True

# SPDX-License-Identifier: Apache-2.0
"""Boards to test: each kind is a program that says `ready PATH` and then serves that port."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from pathlib import Path
from typing import NoReturn

import pytest
import serial

REPOSITORY = Path(__file__).parents[2]
BUILD = REPOSITORY / "firmware" / "build"
PATIENCE_S = 20
"""Nothing here takes that long on a busy host; whoever waits longer waits for nothing."""


def unavailable(reason: str) -> NoReturn:
    """Skip the test, or fail it where everything is supposed to be there."""
    if os.environ.get("REQUIRE_ENGINE") == "1":
        pytest.fail(reason)
    pytest.skip(reason)


def make(target: str) -> None:
    done = subprocess.run(["make", "-C", REPOSITORY / "firmware", target], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


class RunningBoard:
    """A started board program, and a host's view of its serial port."""

    def __init__(self, command: list[str]) -> None:
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=REPOSITORY
        )
        assert self.process.stdout is not None
        # A board that never gets ready is killed, which ends the read below.
        alarm = threading.Timer(PATIENCE_S, self.process.kill)
        alarm.start()
        said = self.process.stdout.readline()
        alarm.cancel()
        assert said.startswith("ready /"), said or self.process.communicate()[1]
        self.path = said.split()[1]

    def open(self) -> serial.Serial:
        return serial.Serial(self.path, 57600, timeout=PATIENCE_S)

    def stop(self) -> tuple[int, str]:
        """Ask the program to end; its exit status and what it wrote to stderr."""
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE_S)
        self.process.kill()
        return self.process.returncode, self.process.communicate()[1]

# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import serial
from boards import BUILD, REPOSITORY, RunningBoard, make, unavailable


@pytest.fixture(scope="session")
def simulator() -> Path:
    """The simulator with its sketch beside it: built here, or else exported from its image."""
    board = BUILD / "board"
    toolchain = ("/usr/include/simavr/sim_avr.h", "/usr/share/arduino/hardware/arduino/avr", "/usr/lib/avr/include")
    if shutil.which("avr-gcc") and shutil.which("cc") and all(Path(path).exists() for path in toolchain):
        make("all")
        make("pacing")  # the image's build does, too
    elif not (board.exists() and (BUILD / "sketch.elf").exists()):
        command = [sys.executable, "-m", "experiments", "firmware"]
        try:
            subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            unavailable(f"no AVR toolchain, and no image to export the simulator from: {error}")
    return board


@pytest.fixture(params=["model", "simavr"])
def board_command(request: pytest.FixtureRequest) -> list[str]:
    """How to start each kind of board."""
    if request.param == "model":
        return [sys.executable, "-m", "firmware.model"]
    return [str(request.getfixturevalue("simulator"))]


@pytest.fixture
def start() -> Iterator[Callable[..., RunningBoard]]:
    """Start a board; it ends with the test."""
    with contextlib.ExitStack() as running:

        def start_board(*command: str) -> RunningBoard:
            board = RunningBoard(list(command))
            running.callback(board.stop)
            return board

        yield start_board


@pytest.fixture
def port(board_command: list[str], start: Callable[..., RunningBoard]) -> Iterator[serial.Serial]:
    """The open serial port of a freshly started board."""
    with start(*board_command).open() as opened:
        yield opened

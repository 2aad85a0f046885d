# SPDX-License-Identifier: Apache-2.0
"""One of us at a time, whoever they are and whatever their environment says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand import LOCK_PATIENCE_S, ROOT, eventually, undisturbed

from experiments import lock

HOLDER = "import sys; from experiments import lock\nwith lock.alone():\n  print('held', flush=True); sys.stdin.read()"


@pytest.fixture
def holder() -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock."""
    holding: list[subprocess.Popen[str]] = []

    def hold() -> bool:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER], cwd=ROOT, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert process.stdout is not None
        if process.stdout.readline() == "held\n":
            holding.append(process)
            return True
        process.wait()
        return False

    eventually(hold, "the lock", LOCK_PATIENCE_S)
    yield holding[0]
    holding[0].kill()
    holding[0].wait()


def test_the_holder_is_named(holder: subprocess.Popen[str]) -> None:
    with pytest.raises(lock.BusyError, match=f"another run is measuring on this host: process {holder.pid} of "):
        lock.alone().__enter__()


def test_the_lock_goes_with_its_holder_however_that_ends(holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    with lock.alone():
        pass


BIND = "import socket; socket.socket(socket.AF_UNIX).bind('\\0mqtt-contention-testbed')"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_finds_it_taken_and_can_have_it_afterwards(holder: subprocess.Popen[str]) -> None:
    def as_nobody() -> int:
        # What `lock.alone` does, for nobody may not read this checkout.
        command = ["/usr/bin/env", "python3", "-I", "-c", BIND]
        return subprocess.run(
            command, stderr=subprocess.DEVNULL, cwd="/", user=65534, group=65534, extra_groups=[], check=False
        ).returncode

    assert as_nobody() == 1
    holder.kill()
    holder.wait()
    eventually(lambda: as_nobody() == 0, "the lock", LOCK_PATIENCE_S)


COMMANDS = [
    ("run", "0", "PLACEMENT=host", "MESSAGES=1"), ("all", "PLACEMENT=host"), ("bench", "PLACEMENT=host"),
    ("clean",),
]  # fmt: skip


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda words: words[0])
def test_whatever_would_disturb_a_run_is_refused_in_a_line(
    holder: subprocess.Popen[str], tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    elsewhere = tmp_path / "another TMPDIR"
    elsewhere.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "experiments", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False,
        env=undisturbed() | {"PYTHONPATH": str(ROOT), "TMPDIR": str(elsewhere)},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"testbed: another run is measuring on this host: process {holder.pid} of ")
    assert list(tmp_path.iterdir()) == [elsewhere]

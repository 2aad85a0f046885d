# SPDX-License-Identifier: Apache-2.0
"""A small disk: filled until nothing fits, emptied of that, wiped."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any

import pytest

from experiments.observer import disk

ROOM = 3 * (1 << 16) + 100


class SmallFile(io.RawIOBase):
    """A file on a disk with little room: it takes what fits, then nothing."""

    def __init__(self) -> None:
        self.length = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.length == ROOM:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        taken = min(len(data), ROOM - self.length)
        self.length += taken
        return taken


def test_a_disk_is_filled_to_its_last_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = SmallFile()
    monkeypatch.setattr(Path, "open", lambda *_, **__: small)
    disk.fill(tmp_path)
    assert small.length == ROOM


def test_what_filled_it_is_taken_away_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mosquitto.db").write_bytes(b"sessions")
    (tmp_path / "ballast").write_bytes(b"x")
    disk.empty(tmp_path)
    disk.empty(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mosquitto.db"]
    disk.wipe(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_its_room_is_what_the_kernel_says(tmp_path: Path) -> None:
    assert disk.free_bytes(tmp_path) > 0
    with pytest.raises(OSError, match="No such file"):
        disk.free_bytes(tmp_path / "not there")

# SPDX-License-Identifier: Apache-2.0
"""The broker's small disk, which the observer has too: a volume in memory lasts as long as a container has it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

STORE = Path("/store")
_BALLAST = "ballast"
_BLOCK = bytes(1 << 16)


def free_bytes(store: Path = STORE) -> int:
    """What still fits; raises OSError where there is no such disk."""
    facts = os.statvfs(store)
    return facts.f_bavail * facts.f_frsize


def fill(store: Path = STORE) -> None:
    """Write a file until nothing more fits."""
    with (store / _BALLAST).open("wb", buffering=0) as ballast:
        try:
            while True:  # a block that does not fit whole is cut, and the next one finds no room at all
                ballast.write(_BLOCK)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def empty(store: Path = STORE) -> None:
    """Take that file away."""
    (store / _BALLAST).unlink(missing_ok=True)


def wipe(store: Path = STORE) -> None:
    """Take every file away, the broker's too."""
    for file in store.iterdir():
        file.unlink()

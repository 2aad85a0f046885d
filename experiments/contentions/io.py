# SPDX-License-Identifier: Apache-2.0
"""Input and output: workers that call sync() and workers that write and unlink files."""

from __future__ import annotations

from experiments.contentions.stress import Stress


class Io(Stress):
    """Bounded to 64 MB a file; how busy the CPU gets depends on the disk, so it is recorded but not demanded."""

    kind = "io"
    workers = 6
    words = ("--io", "4", "--hdd", "2", "--hdd-bytes", "64M")
    busy = False

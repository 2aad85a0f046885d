# SPDX-License-Identifier: Apache-2.0
"""Memory bandwidth and caches: workers that write 256 MB each, again and again, without giving it back."""

from __future__ import annotations

from experiments.contentions.stress import Stress


class Memory(Stress):
    """As many workers as the thesis had for memory, none for anything else."""

    kind = "memory"
    workers = 4
    words = ("--vm", "4", "--vm-bytes", "256M", "--vm-keep")

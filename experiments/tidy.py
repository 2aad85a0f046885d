# SPDX-License-Identifier: Apache-2.0
"""Tidying up: a list of steps of which none prevents the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable

Step = tuple[str, Callable[[], object]]
"""What is tidied, in a few words, and how."""


def each(steps: Iterable[Step]) -> list[str]:
    """Take every step, whatever becomes of the others; returns a line for each that failed."""
    failed = []
    for what, step in steps:
        try:
            step()
        except Exception as error:  # an engine, a disk, a process: each fails in its own way
            failed.append(f"{what}: {' '.join(str(error).split()) or type(error).__name__}")
    return failed

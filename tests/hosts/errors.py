# SPDX-License-Identifier: Apache-2.0
"""What ends a host test early: one line, with the remedy."""

from __future__ import annotations


class HostTestError(Exception):
    """`exit_code` is 2 where the fault is in what was asked for or lacking here, 1 where the guest failed."""

    def __init__(self, line: str, exit_code: int = 1) -> None:
        super().__init__(line)
        self.exit_code = exit_code

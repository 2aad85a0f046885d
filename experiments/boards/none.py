# SPDX-License-Identifier: Apache-2.0
"""The thesis' ideal board: the Pi answers by itself."""

from __future__ import annotations

from experiments.boards import Board, StartBoard


class NoBoard(Board):
    """No port, no program."""

    kind = "none"
    serves = False

    def on_host(self, start: StartBoard) -> str | None:  # noqa: ARG002
        """There is nothing to start."""
        return None

# SPDX-License-Identifier: Apache-2.0
"""The timing model of the board: Python only, for machines without the simulator."""

from __future__ import annotations

import sys
from typing import Any

from experiments.boards import Board, StartBoard


class Model(Board):
    """Byte times and compute time of the real sketch, no AVR instruction executed."""

    kind = "model"

    def compose(self) -> dict[str, Any]:
        """The board's container runs the model."""
        return {"board": {"command": ["model", "--ptmx", "/board/ptmx"]}}

    def on_host(self, start: StartBoard) -> str | None:
        """Run the model on a pseudo-terminal."""
        return start([sys.executable, "-m", "firmware.model"])

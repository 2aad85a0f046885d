# SPDX-License-Identifier: Apache-2.0
"""The real sketch in a simulated ATmega2560."""

from __future__ import annotations

from pathlib import Path

from experiments.boards import Board, StartBoard
from experiments.errors import BadInputError

_BUILD = Path(__file__).parents[2] / "firmware" / "build"


class Simavr(Board):
    """The Compose file's default board; on the host it needs the simulator built beforehand."""

    kind = "simavr"

    def on_host(self, start: StartBoard) -> str | None:
        """Run the exported simulator."""
        runner, sketch = _BUILD / "board", _BUILD / "sketch.elf"
        if not (runner.exists() and sketch.exists()):
            raise BadInputError(
                "DEVICE", "simavr", "the simulator is not built on this host; `make firmware`, or say DEVICE=model"
            )
        return start([str(runner), "--elf", str(sketch)])

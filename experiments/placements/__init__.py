# SPDX-License-Identifier: Apache-2.0
"""The stand: broker, control loop, Pi bridge and board, brought up together, in containers or as plain processes."""

from __future__ import annotations

import json
import os
import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from experiments.errors import StandError
from experiments.plan import Conditions

SERVICES = ("broker", "control-loop", "pi", "board")


class Channel:
    """Jobs to the control loop, events from it: JSON lines over whatever the placement connects us by."""

    def __init__(self) -> None:
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue()

    def send(self, line: bytes) -> None:
        """Hand one line to the control loop's standard input."""
        raise NotImplementedError

    def feed(self, lines: Iterator[bytes]) -> None:
        """Read events from `lines` in the background until it ends."""

        def read() -> None:
            try:
                for line in lines:
                    self._events.put(json.loads(line))
            except (OSError, ValueError):
                pass  # the end of the stream, said below
            self._events.put(None)

        threading.Thread(target=read, daemon=True).start()

    def receive(self, timeout_s: float) -> dict[str, Any]:
        """Give the next event; raise StandError when the control loop ends or stays silent."""
        try:
            event = self._events.get(timeout=timeout_s)
        except queue.Empty:
            raise StandError(f"the control loop said nothing for {timeout_s:.0f} s") from None
        if event is None:
            raise StandError("the control loop ended unexpectedly; see logs/control-loop.log")
        return event


class Stand(Protocol):
    """What the runner needs of a placement."""

    name: str

    def check(self, conditions: Conditions) -> None:
        """Raise BadInputError where these conditions cannot be had here. Starts nothing."""

    def prepare(self, folder: Path, run: str) -> dict[str, Any]:
        """Get images or programs ready, before anything is measured; returns facts for bundle.json."""

    def up(self, conditions: Conditions) -> Channel:
        """Bring the stand to these conditions; cheap when it is there already."""

    def fresh_broker(self) -> None:
        """Replace the broker by a new one without any state."""

    def floor_us(self, interval_ms: int = 5) -> list[int]:
        """Round trips (µs) of 100 raw TCP echoes between control loop and Pi: the instrument's floor."""

    def down(self) -> None:
        """Leave nothing running."""


def cpu_sets() -> tuple[str, str]:
    """Part this machine's CPUs into "the host" (broker, client, what disturbs them) and "the Pi" (bridge, board).

    In the thesis the Pi is a machine of its own; sharing a CPU with the stress would make R its victim too.
    """
    cpus = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else [0]
    if len(cpus) == 1:
        return str(cpus[0]), str(cpus[0])
    own = 1 if len(cpus) < 4 else 2
    return ",".join(map(str, cpus[:-own])), ",".join(map(str, cpus[-own:]))

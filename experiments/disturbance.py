# SPDX-License-Identifier: Apache-2.0
"""Runs the contention around one repetition, and finds out beforehand what the broker can take."""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

from experiments.contentions import Contention
from experiments.errors import StandError
from experiments.placements import Stand

_START_TIMEOUT_S = 90.0
_END_TIMEOUT_S = 60.0
_CAPACITY_ROUNDS = 3
_CAPACITY_S = 2.0


class Disturbance:
    """The contention of a stand, repetition by repetition."""

    def __init__(self, stand: Stand, contention: Contention | None, run: str, capacity: float | None) -> None:
        self._stand = stand
        self.contention = contention
        self.job = contention.job(run, capacity) if contention else None

    def begin(self) -> None:
        """Start the flood and wait until it is in force; a stressor is in force since it started."""
        if self.contention is not None and self.contention.once:
            self._stand.restart(self.contention.service)
        if self.contention is not None and self.job is not None:
            channel = self._stand.channel(self.contention.service)
            channel.send(json.dumps(self.job).encode())
            _expect(channel, "flooding", _START_TIMEOUT_S)

    def end(self) -> dict[str, Any]:
        """Stop the flood; returns its own account, empty for a stressor."""
        if self.contention is None or self.job is None:
            return {}
        channel = self._stand.channel(self.contention.service)
        channel.send(b"stop")
        account = _expect(channel, "done", _END_TIMEOUT_S)
        account.pop("event")
        return account


def capacity(stand: Stand, contention: Contention, run: str) -> float:
    """Measure what this broker takes from this generator on this host, in msg/s: median of short saturations."""
    saturate = type(contention)("saturate")
    rates = []
    for _ in range(_CAPACITY_ROUNDS):
        stand.refresh()
        disturbance = Disturbance(stand, saturate, run, None)
        disturbance.begin()
        time.sleep(_CAPACITY_S)
        account = disturbance.end()
        rates.append(account["delivered"] / max(account["elapsed_s"], 1e-9))
    return float(round(statistics.median(rates), 1))


def _expect(channel: Any, name: str, timeout_s: float) -> dict[str, Any]:
    give_up_s = time.monotonic() + timeout_s
    while True:
        event: dict[str, Any] = channel.receive(max(0.1, give_up_s - time.monotonic()))
        if event.get("event") == name:
            return event
        if event.get("event") == "failed":
            raise StandError(f"the contention did not run: {event['reason']}")

# SPDX-License-Identifier: Apache-2.0
"""Subscribers that stop reading: the broker must queue for them, then drop."""

from __future__ import annotations

from typing import Any

from experiments.contentions.flood import Flood

RATE = 500.0
CONSUMERS = 5


class SlowConsumer(Flood):
    """A modest flood that five subscribers ask for and do not take; the broker may well cut them off."""

    kind = "slow-consumer"

    def job(self, run: str, capacity: float | None) -> dict[str, Any] | None:
        """A fixed rate: what matters is the queue, not the throughput."""
        del capacity
        return {
            "run": run, "clients": 10, "messages": None, "rampup_delay_s": 0.02, "rampup_size": 10, "rate": RATE,
            "slow_consumers": CONSUMERS, "payload_bytes": 1000, "global_timeout_s": 3600.0,
        }  # fmt: skip

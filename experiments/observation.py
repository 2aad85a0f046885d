# SPDX-License-Identifier: Apache-2.0
"""One repetition as seen from outside: the job goes to the driver, its rows come back."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from typing import Any, Protocol

from experiments.errors import RefusedError, StandError
from experiments.families import Job
from experiments.placements import Channel

READY_TIMEOUT_S = 40.0
"""Longer than the driver's own patience, whose reason is the better one to read."""

Rows = list[list[Any]]
"""What the driver told of each cycle, as JSON brought it: sequence, intended_ns, sent_ns, received_ns, then its own."""


class Watch(Protocol):
    """Told when the repetition is in full swing, and when its last cycle is done."""

    def begin(self) -> None:
        """The stand answers, the first cycle is about to start."""

    def end(self) -> None:
        """Nothing more will be sent or received."""


def observe(
    channel: Channel, job: Job, rows: Rows, heard: Callable[[list[int]], None], watch: Watch | None = None
) -> dict[str, Any]:
    """Run one repetition; `rows` grows as samples arrive, `heard` gets their round trips (µs).

    Returns the driver's event `done`, with what it said when it was ready. Raises StandError when the stand does not
    answer or the driver ends, RefusedError when it is not granted what the job asks for.
    """
    channel.send(json.dumps(dataclasses.asdict(job)).encode())
    ready = _expect_ready(channel)
    if watch:
        watch.begin()
    until_s = time.monotonic() + job.scheduled_s() + 2 * job.timeout_ms / 1000 + 30
    while True:
        event = channel.receive(max(1.0, until_s - time.monotonic()))
        if event["event"] == "samples":
            rows += event["rows"]
            heard(_round_trips_us(event["rows"]))
        elif event["event"] == "done":
            if watch:
                watch.end()
            return ready | event
        else:
            raise StandError(event.get("reason", f"unexpected event {event['event']}"))


def _expect_ready(channel: Channel) -> dict[str, Any]:
    """Wait until the whole stand answers; what the driver says of its own start is passed over."""
    while True:
        event = channel.receive(READY_TIMEOUT_S)
        if event["event"] == "ready":
            return event
        if event["event"] == "refused":
            raise RefusedError(event["reason"])
        if event["event"] == "failed":
            raise StandError(event["reason"])


def _round_trips_us(rows: Rows) -> list[int]:
    return [(row[3] - row[2]) // 1000 for row in rows if row[2] is not None and row[3] is not None]

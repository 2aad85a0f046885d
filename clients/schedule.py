# SPDX-License-Identifier: Apache-2.0
"""The open-loop cycle: where requests leave on a fixed schedule and T is taken.

Send times are fixed before the first request, `start + sequence * interval` on CLOCK_MONOTONIC, whatever the
answers do; a late answer therefore never delays, and so never hides, the cycles behind it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from clients.connection import Connection
from clients.wire import Answer, Request, request_topic

LEAD_NS = 20_000_000
"""The first cycle comes this long after the repetition began, so that it is as punctual as the others."""
LINGER_NS = 20_000_000
"""How long to listen on after the last answer, for an answer that comes twice."""


@dataclass(frozen=True, slots=True)
class Job:
    """One repetition to run. Times in ms; `warmup` cycles come before the `messages` that count."""

    run: str
    repetition: int
    interval_ms: float
    messages: int
    warmup: int
    qos: int
    qos_answer: int
    timeout_ms: int

    def scheduled_s(self) -> float:
        """How long the schedule lasts, warm-up included."""
        return (self.warmup + self.messages) * self.interval_ms / 1000


@dataclass(slots=True)
class Cycle:
    """What became of one request; times in ns of CLOCK_MONOTONIC."""

    intended_ns: int
    sent_ns: int | None = None
    received_ns: int | None = None
    r_us: int | None = None
    outcome: str | None = None
    board: str | None = None


Row = list[int | str | bool | None]
"""sequence, intended_ns, sent_ns, received_ns, r_us, outcome, board, duplicate."""


@dataclass
class Schedule:
    """One repetition in flight: sends what is due, matches what arrives by its sequence."""

    job: Job
    cycles: list[Cycle] = field(default_factory=list)
    duplicates: list[tuple[int, Cycle]] = field(default_factory=list)
    foreign: int = 0
    """Answers of another run or repetition, e.g. one that outlived its own repetition."""
    repeats: list[int] = field(default_factory=list)
    """The board's count of repeated answers, at the first answer and at the last."""
    qos_seen: set[tuple[int, int]] = field(default_factory=set)
    """(QoS at which requests reached the Pi, QoS at which answers reached us)."""
    missing: int = 0
    """Cycles that may still be answered."""
    next_sequence: int = 0
    give_up_ns: int | None = None
    """When to stop listening for answers; None: not all is sent."""

    def __post_init__(self) -> None:
        total = self.job.warmup + self.job.messages
        interval_ns = round(self.job.interval_ms * 1_000_000)
        start_ns = time.monotonic_ns() + LEAD_NS
        self.cycles = [Cycle(start_ns + sequence * interval_ns) for sequence in range(total)]
        self.missing = total
        self._topic = request_topic(self.job.run, self.job.qos)

    def receive(self, answer: Answer, qos_answer: int, received_ns: int) -> None:
        """File an answer under its cycle. `received_ns` is the end of T."""
        mine = answer.run == self.job.run and answer.repetition == self.job.repetition
        if not mine or answer.sequence >= self.next_sequence:
            self.foreign += 1
            return
        self.qos_seen.add((answer.qos_request, qos_answer))
        self.repeats = [*self.repeats[:1], answer.repeats]
        cycle = self.cycles[answer.sequence]
        if cycle.sent_ns is None:
            self.foreign += 1  # a request that was refused, and queued all the same
            return
        if cycle.received_ns is not None:
            again = Cycle(cycle.intended_ns, cycle.sent_ns)
            self.duplicates.append((answer.sequence, again))
            cycle = again
        else:
            self.missing -= 1
        cycle.received_ns = received_ns
        cycle.r_us = answer.r_us
        cycle.outcome = answer.outcome
        cycle.board = answer.board

    def run(self, connection: Connection, idle: Callable[[int], bool]) -> bool:
        """Send every request at its time and listen until all is answered or given up; False when cut short.

        `idle(until_ns)` is called after each wake-up that finds nothing due before `until_ns`; it returns False to
        cut the repetition short. Raises ConnectionLostError when the broker goes; after `skip` it may be called again
        with another connection, and goes on.
        """
        job = self.job
        cycles = self.cycles
        while self.next_sequence < len(cycles):
            sequence = self.next_sequence
            cycle = cycles[sequence]
            if time.monotonic_ns() < cycle.intended_ns:
                connection.wait(cycle.intended_ns)
                if not idle(cycle.intended_ns):
                    return False
                continue
            payload = Request(job.run, job.repetition, sequence, job.qos_answer).encode()
            self.next_sequence += 1
            sent_ns = time.monotonic_ns()  # T starts here, before the message is handed to the MQTT client,
            if connection.publish(self._topic, payload, job.qos):
                cycle.sent_ns = sent_ns
            else:
                self.missing -= 1
        # An answer is late after timeout_ms; listening twice as long tells late from lost.
        if self.give_up_ns is None:
            self.give_up_ns = time.monotonic_ns() + 2 * job.timeout_ms * 1_000_000
        while self.missing and time.monotonic_ns() < self.give_up_ns:
            connection.wait(self.give_up_ns)
            if not idle(self.give_up_ns):
                return False
        linger_ns = time.monotonic_ns() + LINGER_NS
        while time.monotonic_ns() < linger_ns:
            connection.wait(linger_ns)
        return True

    def ends_ns(self) -> int:
        """The latest time at which anything is still waited for, if all goes to schedule."""
        return self.give_up_ns or self.cycles[-1].intended_ns + 2 * self.job.timeout_ms * 1_000_000

    def skip(self, now_ns: int) -> None:
        """Leave unsent what was due while there was no connection: an open loop sends nothing belatedly."""
        while self.next_sequence < len(self.cycles) and self.cycles[self.next_sequence].intended_ns <= now_ns:
            self.next_sequence += 1
            self.missing -= 1

    def board_repeats(self) -> int:
        """How often the board answered a question twice during this repetition."""
        return self.repeats[-1] - self.repeats[0] if self.repeats else 0

    def rows(self, first: int = 0, *, answered_only: bool = False) -> list[Row]:
        """The cycles from `first` on, up to the first unanswered one where `answered_only`."""
        rows: list[Row] = []
        for sequence in range(first, len(self.cycles)):
            cycle = self.cycles[sequence]
            if answered_only and cycle.received_ns is None:
                break
            rows.append(_row(sequence, cycle, duplicate=False))
        return rows

    def duplicate_rows(self) -> list[Row]:
        """One row for every answer to a cycle that had one."""
        return [_row(sequence, cycle, duplicate=True) for sequence, cycle in self.duplicates]


def _row(sequence: int, cycle: Cycle, *, duplicate: bool) -> Row:
    return [
        sequence, cycle.intended_ns, cycle.sent_ns, cycle.received_ns,
        cycle.r_us, cycle.outcome, cycle.board, duplicate,
    ]  # fmt: skip

# SPDX-License-Identifier: Apache-2.0
"""The control loop: asks for a temperature on an open-loop schedule and takes T.

By hand, it runs one repetition and prints what it saw:

    docker compose run --rm control-loop --interval-ms 20 --messages 100

For the runner (`--jobs`) it reads one job a line from standard input, as JSON with the fields of `schedule.Job`, and
answers with JSON lines: `ready` (connected, the whole stand answers), `samples` (rows so far), `done`; or `refused`
(the broker grants another QoS), or `failed`.
End of input, a line `stop`, or SIGTERM ends it.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from paho.mqtt.client import MQTTMessage

from clients import way
from clients.connection import (
    Connection,
    ConnectionLostError,
    SubscriptionRefusedError,
    attempt_timeouts_s,
    sharpen_timers,
)
from clients.schedule import Job, Row, Schedule
from clients.security import OPEN
from clients.way import Way
from clients.wire import PI_TOPIC, Answer, Request, WireError, answer_topic, request_topic

PROBE_REPETITION = 0
"""Repetitions count from 1; the requests that ask whether the stand answers at all carry 0."""

RECONNECT_PATIENCE_S = 30.0
"""How long a repetition waits for a broker that went; what was due meanwhile stays unsent."""

_DROPPED = "$SYS/broker/publish/messages/dropped"
"""Mosquitto's count of messages it gave up on; brokers that do not have it say nothing."""

_KNOCK_TIMEOUT_S = 5.0
_ASKED_AGAIN = 5
"""Times, 20 ms apart, for what the Pi left; where it left nothing the proof says so."""
_REPORT_EVERY_NS = 1_000_000_000
# A report costs some 100 µs: only where the next request is this far away.
_REPORT_SLACK_NS = 4_000_000


@dataclass(frozen=True)
class Reconnection:
    """A connection lost in the middle of a repetition; times in ns of CLOCK_MONOTONIC."""

    lost_ns: int
    cause: str
    back_ns: int | None
    """None: it never came back."""


class ControlLoop:
    """Runs repetitions, each on a connection of its own; one that is lost on the way is made anew."""

    def __init__(self, way: Way, emit: Callable[..., None]) -> None:
        self._emit = emit
        self._way = way
        self._schedule: Schedule | None = None
        self._probe_answered = False
        self._malformed = 0
        self._pi: dict[str, Any] | None = None
        self._dropped: list[tuple[int, int]] = []
        self._reported = 0
        self._report_ns = 0
        self._jobs_fd: int | None = None
        self._reconnections: list[Reconnection] = []
        self._last: Connection | None = None

    def run(self, job: Job, *, patience_s: float, jobs_fd: int | None = None) -> None:
        """Run one repetition and emit its events; raise ConnectionLostError when the stand does not answer."""
        self._jobs_fd = jobs_fd
        self._schedule, self._probe_answered, self._malformed, self._reported = None, False, 0, 0
        self._dropped, self._reconnections, self._pi = [], [], None
        # The one before stayed open until now, so that its socket could be looked at however short the repetition.
        if self._last is not None:
            self._last.close()
            self._last = None
        connection, granted = self._connect(patience_s, job)
        if granted != job.qos_answer:
            reason = f"the broker grants QoS {granted} where {job.qos_answer} was asked for; choose a lower QOS"
            self._emit(event="refused", reason=reason)
            connection.close()
            return
        self._watch_drops(connection, patience_s)
        connection.subscribe(PI_TOPIC, 0, timeout_s=patience_s)
        self._probe(connection, job, patience_s)
        self._ask_again_for_the_pis_protection(connection, patience_s)
        self._emit(event="ready", granted_qos=granted, protection=self._protection(connection, job.run))
        gc.collect()
        gc.disable()  # a collection in the middle of a cycle would be measured as latency of the broker
        schedule = self._schedule = Schedule(job)
        self._report_ns = time.monotonic_ns() + _REPORT_EVERY_NS
        cpu_s, began_ns = time.process_time(), time.monotonic_ns()
        try:
            connection, complete, lost = self._cycle(schedule, connection)
        finally:
            gc.enable()
        elapsed_s = (time.monotonic_ns() - began_ns) / 1e9
        self._emit(event="samples", rows=schedule.rows(self._reported) + schedule.duplicate_rows())
        self._emit(
            event="done", complete=complete, connection_lost=lost, elapsed_s=elapsed_s,
            cpu_s=time.process_time() - cpu_s, foreign=schedule.foreign, malformed=self._malformed,
            qos_seen=sorted(schedule.qos_seen), board_repeats=schedule.board_repeats(), broker_dropped=self._dropped,
            reconnections=[asdict(each) for each in self._reconnections],
        )  # fmt: skip
        self._last = connection if lost is None else None

    def _cycle(self, schedule: Schedule, connection: Connection) -> tuple[Connection, bool, str | None]:
        """Run the schedule through losses of the connection.

        Returns the last connection, whether the schedule was completed, and why the broker was given up on.
        """
        while True:
            try:
                return connection, schedule.run(connection, self._idle), None
            except ConnectionLostError as error:
                cause, lost_ns = str(error), time.monotonic_ns()
            again, otherwise = self._reconnect(schedule, connection)
            back_ns = time.monotonic_ns()
            self._reconnections.append(Reconnection(lost_ns, cause, None if again is None else back_ns))
            schedule.skip(back_ns)
            if again is None:
                return connection, False, f"{cause}; {otherwise}"
            connection = again

    def _reconnect(self, schedule: Schedule, lost: Connection) -> tuple[Connection | None, str]:
        """Return a connection to the broker that came back, or none and why, once waiting is pointless."""
        give_up_ns = min(time.monotonic_ns() + int(RECONNECT_PATIENCE_S * 1e9), schedule.ends_ns())
        for timeout_s in attempt_timeouts_s():
            left_s = (give_up_ns - time.monotonic_ns()) / 1e9
            if left_s <= 0:
                return None, "the broker did not come back"
            if self._told_to_stop():
                return None, "told to stop"
            try:
                return self._subscribed(schedule.job, min(timeout_s, left_s), lost), ""
            except OSError as error:  # refused, unreachable, or not yet what it was
                otherwise = str(error)
                time.sleep(min(0.02, left_s))
        raise AssertionError(otherwise)

    def _subscribed(self, job: Job, timeout_s: float, lost: Connection) -> Connection:
        connection = lost if self._way.persistent else self._connection(job.run)
        connection.open(timeout_s=timeout_s)
        granted = connection.subscribe(answer_topic(job.run), job.qos_answer, timeout_s=timeout_s)
        if granted != job.qos_answer:
            raise ConnectionLostError(f"the broker now grants QoS {granted}")
        self._watch_drops(connection, timeout_s)
        return connection

    def _connect(self, patience_s: float, job: Job) -> tuple[Connection, int]:
        """Return a connection that is subscribed to the answers, and the QoS granted."""
        give_up = time.monotonic() + patience_s
        for timeout_s in attempt_timeouts_s():
            connection = self._connection(job.run)
            try:
                connection.open(timeout_s=timeout_s)
                return connection, connection.subscribe(answer_topic(job.run), job.qos_answer, timeout_s=patience_s)
            except SubscriptionRefusedError:
                raise
            except OSError as error:
                # The broker of this repetition may still be starting; some accept connections then, and drop them.
                if time.monotonic() > give_up:
                    place = f"{self._way.host}:{self._way.port}"
                    raise ConnectionLostError(f"no broker at {place} within {patience_s:g} s: {error}") from error
                time.sleep(0.02)
        raise AssertionError("attempts never end by themselves")

    def _connection(self, run: str) -> Connection:
        return Connection(self._way, client_id=f"control-loop-{run}", on_message=self._on_message)

    def _protection(self, connection: Connection, run: str) -> dict[str, Any]:
        """What protects each end, by service: both clients' own connections, and whom the broker lets in."""
        strangers = self._lets_strangers_in(run)
        return {"control-loop": connection.protection(), "pi": self._pi, "broker": {"strangers": strangers}}

    def _lets_strangers_in(self, run: str) -> bool:
        """Knock once without credentials: whether the broker is open is told by the broker alone."""
        stranger = Connection(
            replace(self._way, credentials=OPEN), client_id=f"stranger-{run}", on_message=lambda _message: None
        )
        try:
            stranger.open(timeout_s=_KNOCK_TIMEOUT_S)
        except OSError:
            return False
        stranger.close()
        return True

    def _watch_drops(self, connection: Connection, patience_s: float) -> None:
        try:
            connection.subscribe(_DROPPED, 0, timeout_s=patience_s)
        except SubscriptionRefusedError:
            return  # a broker may keep its $SYS topics to itself

    def _probe(self, connection: Connection, job: Job, patience_s: float) -> None:
        """Ask until the Pi and its board answer once: only then is the stand complete."""
        give_up = time.monotonic() + patience_s
        sequence = 0
        while not self._probe_answered:
            if time.monotonic() > give_up:
                raise ConnectionLostError(f"broker reached, but no answer from Pi and board within {patience_s:g} s")
            connection.publish(
                request_topic(job.run, job.qos),
                Request(job.run, PROBE_REPETITION, sequence, job.qos_answer).encode(),
                job.qos,
            )
            sequence += 1
            until_ns = time.monotonic_ns() + 20_000_000
            while not self._probe_answered and time.monotonic_ns() < until_ns:
                connection.wait(until_ns)

    def _ask_again_for_the_pis_protection(self, connection: Connection, patience_s: float) -> None:
        """Subscribe anew to what the Pi left retained: a broker may store that after it delivered later messages."""
        for _ in range(_ASKED_AGAIN):
            if self._pi is not None:
                return
            connection.subscribe(PI_TOPIC, 0, timeout_s=patience_s)
            until_ns = time.monotonic_ns() + 20_000_000
            while self._pi is None and time.monotonic_ns() < until_ns:
                connection.wait(until_ns)

    def _on_message(self, message: MQTTMessage) -> None:
        received_ns = time.monotonic_ns()  # T ends here, when the answer reaches the application.
        if message.topic == PI_TOPIC:
            with contextlib.suppress(ValueError):  # of somebody else: then the Pi said nothing
                self._pi = json.loads(message.payload)
            return
        if message.topic == _DROPPED:
            if message.payload.isdigit():  # another broker may have words there
                self._dropped.append((received_ns, int(message.payload)))
            return
        try:
            answer = Answer.decode(bytes(message.payload))
        except WireError:
            self._malformed += 1
            return
        if answer.repetition == PROBE_REPETITION:
            self._probe_answered |= answer.outcome == "ok"
        elif self._schedule is not None:
            self._schedule.receive(answer, message.qos, received_ns)

    def _idle(self, until_ns: int) -> bool:
        now_ns = time.monotonic_ns()
        if now_ns < self._report_ns or self._schedule is None:
            return True
        if self._told_to_stop():
            return False
        if until_ns - now_ns > _REPORT_SLACK_NS:
            self._report_ns = now_ns + _REPORT_EVERY_NS
            rows = self._schedule.rows(self._reported, answered_only=True)
            self._reported += len(rows)
            self._emit(event="samples", rows=rows)
        return True

    def _told_to_stop(self) -> bool:
        return self._jobs_fd is not None and bool(select.select([self._jobs_fd], [], [], 0)[0])


def print_json(**event: Any) -> None:
    """Write one JSON line to standard output, at once."""
    sys.stdout.write(json.dumps(event, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def serve_jobs(loop: ControlLoop, patience_s: float) -> None:
    """Run the jobs that come on standard input until it ends or says stop."""
    print_json(event="waiting")
    pending = b""
    fd = sys.stdin.fileno()
    while True:
        while b"\n" in pending:
            line, _, pending = pending.partition(b"\n")
            if line == b"stop":
                return
            try:
                loop.run(Job(**json.loads(line)), patience_s=patience_s, jobs_fd=fd)
            except OSError as error:
                print_json(event="failed", reason=str(error))
        chunk = os.read(fd, 65536)
        if not chunk:
            return
        pending += chunk


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and run; returns the exit code."""
    parser = argparse.ArgumentParser(prog="control-loop", description=(__doc__ or "").split("\n\n")[0])
    way.add_arguments(parser)
    parser.add_argument("--patience-s", type=float, default=30.0, help="how long to wait for broker, Pi and board")
    parser.add_argument("--jobs", action="store_true", help="read jobs from standard input (for the runner)")
    parser.add_argument("--interval-ms", type=float, default=20.0)
    parser.add_argument("--messages", type=int, default=100)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--qos", type=int, choices=(0, 1, 2), default=0)
    parser.add_argument("--timeout-ms", type=int, default=1000)
    options = parser.parse_args(arguments)
    # As an exception it unwinds through the job, whose samples so far are written before the process ends.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    sharpen_timers()
    try:
        if not options.jobs:
            return _once(options)
        serve_jobs(ControlLoop(Way.of(options), print_json), options.patience_s)
    except KeyboardInterrupt:
        return 130
    return 0


def _once(options: argparse.Namespace) -> int:
    """Run one repetition by hand and print its figures."""
    rows: list[Row] = []

    def collect(**event: Any) -> None:
        rows.extend(event.get("rows", ()))
        if event["event"] == "refused":
            print(f"control-loop: {event['reason']}", file=sys.stderr)

    job = Job(
        run=os.urandom(4).hex(), repetition=1, interval_ms=options.interval_ms, messages=options.messages,
        warmup=options.warmup, qos=options.qos, qos_answer=options.qos, timeout_ms=options.timeout_ms,
    )  # fmt: skip
    try:
        ControlLoop(Way.of(options), collect).run(job, patience_s=options.patience_s)
    except OSError as error:
        print(f"control-loop: {error}", file=sys.stderr)
        return 1
    answered = [row for row in rows[job.warmup :] if row[5] == "ok" and not row[7]]
    t_us = sorted((row[3] - row[2]) // 1000 for row in answered)  # type: ignore[operator]
    r_us = sorted(row[4] for row in answered)  # type: ignore[type-var]
    print(f"{len(answered)} of {job.messages} answered by board {answered[0][6] if answered else '-'}")
    for name, values in (("T", t_us), ("R", r_us)):
        if values:
            middle, tail = values[len(values) // 2], values[len(values) * 99 // 100]
            print(f"{name} µs: min {values[0]}, p50 {middle}, p99 {tail}, max {values[-1]}")
    return 0 if len(answered) == job.messages else 1


if __name__ == "__main__":
    sys.exit(main())

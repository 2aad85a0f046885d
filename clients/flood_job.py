# SPDX-License-Identifier: Apache-2.0
"""One flood: connects its clients step by step, keeps the load up, and accounts for every message.

Three forms of load, one of which a job chooses:

- published (neither `rate` nor `saturate`): what the thesis' mqtt-stresser does. Each client connects, publishes its
  messages at once, waits until they are back, and leaves; connecting them step by step is the load.
- `rate`: an open loop. All clients connect; then message k of all leaves at start + k / rate from client k modulo
  clients, whatever the broker does. What leaves late is counted as late, what never leaves as unsent.
- `saturate`: as fast as the broker takes it, with a bounded number of messages on their way per client.
"""

from __future__ import annotations

import asyncio
import math
import re
import socket
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from clients.flood_client import SMALLEST_PAYLOAD, FloodClient, Session, SlowConsumer, Tally, Traffic
from clients.stalls import Stalls
from clients.way import Way

MOMENT_S = 0.25
"""How long a load must hold before it counts as reached."""
REACHED = 0.95
"""Which part of what was due in that moment must have been sent."""
QUIET_S = 0.5
"""After the last send: when nothing came back for this long, nothing more is waited for."""

STALLED_S = 2.0
"""When a saturating client got nothing back for this long, its window was lost and is opened anew."""

_CONNECTING_AT_ONCE = 32
"""Far below the 100 connections that fit a broker's listen backlog; beyond it, the kernel drops and retries in 1 s."""
_SMALL_RECEIVE_BUFFER = 4096
"""Bytes; a slow consumer should back the broker up after kilobytes, not megabytes."""
_FIRST_ATTEMPT_S = 0.05
_RUN = re.compile(r"[0-9a-f]{8}\Z")


class FloodError(Exception):
    """The flood did not run as asked."""


@dataclass(frozen=True, slots=True)
class FloodJob:
    """One flood to run. Raises ValueError where it asks for what cannot be."""

    run: str
    clients: int = 100
    messages: int | None = 10
    """Of each client; None: no end."""
    rate: float | None = None
    """Messages a second of all clients together, in an open loop."""
    saturate: bool = False
    rampup_delay_s: float = 1.0
    """From one step of `rampup_size` clients to the next."""
    rampup_size: int = 10
    timeout_s: float = 20.0
    """For one connection, for the load to be reached, and for messages to come back."""
    global_timeout_s: float = 180.0
    """The flood never lasts longer, whatever else is asked."""
    payload_bytes: int = 100
    qos: int = 0
    slow_consumers: int = 0
    repeat: bool = False
    """Start over when all messages are sent, until stopped."""

    def __post_init__(self) -> None:
        for wrong, message in (
            (not _RUN.match(self.run), f"run {self.run!r}: 8 hex digits are expected"),
            (self.clients < 1, f"clients {self.clients}: at least 1 is needed"),
            (self.messages is not None and self.messages < 1, f"messages {self.messages}: at least 1 is needed"),
            (self.messages is None and self.published, "messages: without an end only with rate or saturate"),
            (self.rate is not None and not 0 < self.rate < math.inf, f"rate {self.rate}: more than 0 is needed"),
            (self.rate is not None and self.saturate, "rate and saturate exclude each other"),
            (self.rampup_size < 1, f"rampup_size {self.rampup_size}: at least 1 is needed"),
            (self.rampup_delay_s < 0, f"rampup_delay_s {self.rampup_delay_s}: at least 0 is needed"),
            (min(self.timeout_s, self.global_timeout_s) <= 0, "timeouts must be longer than 0"),
            (not SMALLEST_PAYLOAD <= self.payload_bytes <= 65536,
             f"payload_bytes {self.payload_bytes}: {SMALLEST_PAYLOAD} to 65536 are allowed"),
            (self.qos not in {0, 1, 2}, f"qos {self.qos}: 0, 1 or 2 are allowed"),
            (self.slow_consumers < 0, f"slow_consumers {self.slow_consumers}: at least 0 is needed"),
        ):  # fmt: skip
            if wrong:
                raise ValueError(message)

    @property
    def published(self) -> bool:
        """Whether this is the thesis' form of flood, whose ramp-up itself is the load."""
        return self.rate is None and not self.saturate

    @property
    def total(self) -> float:
        """How many messages all clients are to send; infinite where there is no end."""
        return math.inf if self.messages is None or self.repeat else self.clients * self.messages


class Flood:
    """Runs one job against one broker and emits `flooding`, then `done` or `failed`."""

    def __init__(self, job: FloodJob, way: Way, emit: Callable[..., None]) -> None:
        self._address = (way.host, way.port)
        self._job = job
        self._way = way
        self._emit = emit
        self._tally = Tally()
        self._clients: list[FloodClient] = []
        self._slow: list[SlowConsumer] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._connecting = asyncio.Semaphore(_CONNECTING_AT_ONCE)
        self._end = asyncio.Event()
        self._offered = 0
        self._connects = 0
        self._failures: list[str] = []
        self._rounds = 0
        self._start_ns = 0
        self._start_cpu_s = 0.0
        self._flooding = False
        self._stalls = Stalls()
        self._traffic = Traffic(
            job.payload_bytes, job.qos, job.saturate, None if job.rate is None else self._intended_ns
        )

    def stop(self) -> None:
        """End the load; `run` then drains and accounts."""
        self._end.set()

    async def run(self, patience_s: float) -> bool:
        """Run the flood to its end, after at most `patience_s` of waiting for the broker; False where it failed."""
        self._begin()
        load = asyncio.create_task(self._load(patience_s))
        stopped = asyncio.create_task(self._end.wait())
        watching = asyncio.create_task(self._stalls.watch())
        await asyncio.wait({load, stopped}, return_when=asyncio.FIRST_COMPLETED)
        self._stalls.look()
        self._freeze()
        elapsed_s, cpu_s = time.monotonic() - self._start_ns / 1e9, time.process_time() - self._start_cpu_s
        for task in (load, stopped, watching, *self._tasks):
            task.cancel()
        outcome, *_ = await asyncio.gather(load, *self._tasks, return_exceptions=True)
        await self._drain()
        facts = self._account(elapsed_s, cpu_s)
        self._close()
        if isinstance(outcome, FloodError):
            self._emit(event="failed", reason=str(outcome), **facts)
            return False
        if isinstance(outcome, Exception):
            raise outcome
        self._emit(event="done", ended=outcome if isinstance(outcome, str) else "stop", **facts)
        return True

    async def _load(self, patience_s: float) -> str:
        """Put the load on; returns what ended it."""
        await self._reach_broker(patience_s)
        job = self._job
        self._begin()
        try:
            async with asyncio.timeout(job.global_timeout_s):
                for number in range(job.slow_consumers):
                    await self._clog(number)
                if job.published:
                    await self._ramp_up_and_down()
                else:
                    await self._ramp_up()
                    await self._keep_up()
        except TimeoutError:
            return "global-timeout"
        return "messages"

    def _begin(self) -> None:
        """Count time and CPU from here."""
        self._start_ns, self._start_cpu_s = time.monotonic_ns(), time.process_time()
        self._stalls.begin()

    async def _reach_broker(self, patience_s: float) -> None:
        """Ask until the broker answers: that of this repetition may still be starting."""
        loop = asyncio.get_running_loop()
        give_up_s, timeout_s = loop.time() + patience_s, _FIRST_ATTEMPT_S
        while True:
            session = Session()
            try:
                async with asyncio.timeout(timeout_s):
                    addresses = await loop.getaddrinfo(*self._address, type=socket.SOCK_STREAM)
                    address = (str(addresses[0][4][0]), int(addresses[0][4][1]))
                    await session.open(address, f"flood-{self._job.run}", self._way)
            except OSError as error:
                if loop.time() > give_up_s:
                    host, port = self._address
                    raise FloodError(f"no broker at {host}:{port} within {patience_s:g} s: {_reason(error)}") from error
                await asyncio.sleep(0.02)
                # Short at first: a request that meets a container on its way down is repeated only after 1 s.
                timeout_s = min(2.0, 1.2 * timeout_s)
            else:
                session.close()
                self._address = address  # resolved once, not by every client
                return

    async def _clog(self, number: int) -> None:
        consumer = SlowConsumer()
        self._slow.append(consumer)
        try:
            async with asyncio.timeout(self._job.timeout_s):
                await consumer.open(
                    self._address, f"slow-{self._job.run}-{number}", self._way, receive_buffer=_SMALL_RECEIVE_BUFFER
                )
                await consumer.clog(f"testbed/flood/{self._job.run}/+", self._job.qos)
        except OSError as error:
            self._failures.append(_reason(error))
            raise FloodError(f"slow consumer {number} could not connect: {_reason(error)}") from error
        self._connects += 1

    async def _connect(self, number: int) -> FloodClient | None:
        """Connect and subscribe one client; None where that failed, which is counted."""
        job = self._job
        client = FloodClient(number % job.clients, f"testbed/flood/{job.run}/{number}", self._traffic, self._tally)
        try:
            async with self._connecting, asyncio.timeout(job.timeout_s):
                await client.open(self._address, f"flood-{job.run}-{number}", self._way)
                await client.subscribe(client.topic, job.qos)
        except BaseException as error:
            client.abort()
            if not isinstance(error, OSError):
                raise  # the flood ends
            self._failures.append(_reason(error))
            return None
        self._connects += 1
        self._clients.append(client)
        return client

    async def _ramp_up(self) -> None:
        """Connect all clients, one step after the other."""
        job = self._job
        for first in range(0, job.clients, job.rampup_size):
            if first:
                await asyncio.sleep(job.rampup_delay_s)
            step = range(first, min(first + job.rampup_size, job.clients))
            await asyncio.gather(*map(self._connect, step))
        if len(self._clients) < job.clients:
            missing = job.clients - len(self._clients)
            raise FloodError(f"{missing} of {job.clients} clients could not connect: {self._failures[0]}")
        self._clients.sort(key=lambda client: client.number)

    async def _ramp_up_and_down(self) -> None:
        """The thesis' flood: step by step, clients come, publish all they have, get it back, and leave."""
        job = self._job
        step_s, number = time.monotonic(), 0
        while self._rounds == 0 or job.repeat:
            connects, arrivals = self._connects, []
            for first in range(0, job.clients, job.rampup_size):
                await asyncio.sleep(step_s - time.monotonic())
                step_s += job.rampup_delay_s
                for _ in range(first, min(first + job.rampup_size, job.clients)):
                    arrivals.append(self._start(self._arrive(number)))
                    number += 1
            await asyncio.gather(*arrivals)
            if self._connects == connects:
                raise FloodError(f"none of {job.clients} clients could connect: {self._failures[-1]}")
            step_s = max(step_s, time.monotonic())  # what was slow must not become a burst later
            self._rounds += 1
        await asyncio.gather(*self._tasks)

    async def _arrive(self, number: int) -> None:
        assert self._job.messages is not None
        self._offered += self._job.messages
        client = await self._connect(number)
        if client is None:
            return
        self._say_flooding(rate=None)
        client.due = self._job.messages
        client.flush()
        self._start(self._leave_when_complete(client))

    async def _leave_when_complete(self, client: FloodClient) -> None:
        give_up_s = time.monotonic() + self._job.timeout_s
        while client.alive and time.monotonic() < give_up_s and not (client.sent == client.due and client.complete):
            await asyncio.sleep(0.01)
        client.close()
        self._clients.remove(client)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Let a client act by itself, until the flood ends."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _say_flooding(self, rate: float | None) -> None:
        if not self._flooding:
            self._flooding = True
            self._emit(event="flooding", clients=self._connects - len(self._slow), rate=rate)

    async def _keep_up(self) -> None:
        """Publish at the rate asked for, or as fast as the broker takes it, and say once that it is so."""
        self._begin()
        try:
            async with asyncio.TaskGroup() as group:
                announcement = group.create_task(self._announce())
                await (self._follow_schedule() if self._job.rate else self._saturate())
                announcement.cancel()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None

    async def _follow_schedule(self) -> None:
        clients, job = self._clients, self._job
        assert job.rate is not None
        count = len(clients)
        while True:
            due, before = self._due(), self._offered
            for number in range(before, due):
                clients[number % count].due += 1
            self._offered = due
            for number in range(before, min(due, before + count)):
                clients[number % count].flush()
            self._check_alive()
            if due == job.total and self._all_sent():
                return
            # With all offered, only late messages remain, which the clients send by themselves.
            next_ns = self._start_ns + round(due * 1e9 / job.rate) if due < job.total else time.monotonic_ns() + 10**7
            await asyncio.sleep((next_ns - time.monotonic_ns()) / 1e9)

    async def _saturate(self) -> None:
        total = self._job.total
        for client in self._clients:
            client.due = 2**62 if total == math.inf else int(total) // len(self._clients)
            client.flush()
        while True:
            before = [client.awaited for client in self._clients]
            for _ in range(20):
                await asyncio.sleep(STALLED_S / 20)
                self._check_alive()
                if self._all_sent():
                    return
            for client, awaited in zip(self._clients, before, strict=True):
                if client.awaited == awaited:
                    client.forgive()

    def _check_alive(self) -> None:
        if not any(client.alive for client in self._clients):
            raise FloodError(f"the broker closed the connections of all {len(self._clients)} clients")

    def _all_sent(self) -> bool:
        """Whether every client that still can has sent all that is due."""
        return all(client.sent == client.due or not client.alive for client in self._clients)

    async def _announce(self) -> None:
        """Say so when the load has held for a moment; raise FloodError when it never does."""
        give_up_s = time.monotonic() + self._job.timeout_s
        while True:
            due, sent, began_s = self._due(), self._tally.sent, time.monotonic()
            await asyncio.sleep(MOMENT_S)
            due, sent = self._due() - due, self._tally.sent - sent
            rate = sent / (time.monotonic() - began_s)
            if sent and sent >= REACHED * due:
                self._say_flooding(round(rate, 1))
                return
            if time.monotonic() > give_up_s:
                raise FloodError(f"asked for {self._job.rate or 'as many as it takes'} msg/s, reached {rate:.0f}")

    def _intended_ns(self, client: int, number: int) -> int:
        """When message `number` of a client is to leave."""
        assert self._job.rate is not None
        return self._start_ns + round((number * self._job.clients + client) * 1e9 / self._job.rate)

    def _due(self) -> int:
        """How many messages all clients should have sent by now; 0 where no schedule says so."""
        if self._job.rate is None:
            return 0
        due = int((time.monotonic_ns() - self._start_ns) * self._job.rate / 1e9) + 1
        return int(min(due, self._job.total))

    def _freeze(self) -> None:
        """End the load: from here on only what was sent may come back."""
        for client in self._clients:
            client.halt()
        if self._job.saturate:
            self._offered = self._tally.sent  # it offers what the broker takes

    async def _drain(self) -> None:
        """Wait for what is on its way, as long as something comes."""
        loop = asyncio.get_running_loop()
        give_up_s, quiet_s, before = loop.time() + self._job.timeout_s, 0.0, -1
        while quiet_s < QUIET_S and loop.time() < give_up_s:
            if all(client.complete or not client.alive for client in self._clients):
                return
            await asyncio.sleep(0.01)
            progress = self._tally.delivered + self._tally.acknowledged
            quiet_s = quiet_s + 0.01 if progress == before else 0.0
            before = progress

    def _account(self, elapsed_s: float, cpu_s: float) -> dict[str, Any]:
        tally = self._tally
        return {
            "offered": self._offered, "sent": tally.sent, "unsent": self._offered - tally.sent,
            "delivered": tally.delivered, "dropped": tally.sent - tally.delivered,
            "acknowledged": tally.acknowledged, "duplicates": tally.duplicates, "foreign": tally.foreign,
            "connects": self._connects, "failed_connects": len(self._failures),
            "failure": self._failures[0] if self._failures else None,
            "disconnects": tally.disconnects,
            "slow_consumers_cut_off": sum(consumer.cut_off for consumer in self._slow),
            "rounds": self._rounds, "elapsed_s": round(elapsed_s, 6), "cpu_s": round(cpu_s, 6),
            "stalled_s": round(self._stalls.total_s, 6),
            "lateness_us": tally.lateness.record(), "latency_us": tally.latency.record(),
        }  # fmt: skip

    def _close(self) -> None:
        for client in self._clients:
            client.close()
        for consumer in self._slow:
            consumer.abort()


def _reason(error: OSError) -> str:
    return str(error) or type(error).__name__

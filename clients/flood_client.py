# SPDX-License-Identifier: Apache-2.0
"""One client of the flood: a bare MQTT session on asyncio, which counts all it sends and gets.

Without a library, for the generator runs on the very host whose broker it loads, and its CPU is part of the load.
"""

from __future__ import annotations

import asyncio
import math
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from clients import packets
from clients.packets import Packet, PacketError
from clients.way import Way

IN_FLIGHT = 20
"""How many QoS 1 and 2 messages of a client may await their acknowledgement; more are sent later, and late.

Mosquitto's own default (`max_inflight_messages`). Of a client that exceeds it at QoS 2, Mosquitto 2.0.11 acknowledges
every message and delivers only some (measured: with 100 in flight, 42 % never came; see mosquitto#3056).
"""
WINDOW = 50
"""How many messages of a client may be on their way when it sends as fast as the broker takes them.

Far below the 1000 at which Mosquitto starts to drop what a client is to get.
"""

_HEADER = struct.Struct("!QI")
"""What a payload begins with: when it was sent (ns of CLOCK_MONOTONIC), and its number at this client."""
SMALLEST_PAYLOAD = _HEADER.size
_AT_ONCE = 64
"""Messages a write: enough to make up for a delay cheaply, few enough to notice a full socket in time."""
_BUCKETS_PER_OCTAVE = 32
_TCP_ESTABLISHED = 1


class Histogram:
    """Durations in buckets 2 % wide: quantiles of any number of them in bounded memory."""

    def __init__(self) -> None:
        self._buckets = [0] * (64 * _BUCKETS_PER_OCTAVE)
        self.count = 0
        self.max_ns = 0

    def add(self, duration_ns: int) -> None:
        """Count one duration; a negative one counts as none."""
        self._buckets[int(math.log2(max(duration_ns, 1)) * _BUCKETS_PER_OCTAVE)] += 1
        self.count += 1
        self.max_ns = max(self.max_ns, duration_ns)

    def quantile_us(self, quantile: float) -> int | None:
        """Return the quantile, within 2 %; None where fewer than one duration lies beyond it."""
        beyond = self.count * (1 - quantile)
        if beyond < 1 - 1e-9:
            return None
        for bucket in range(len(self._buckets) - 1, -1, -1):
            beyond -= self._buckets[bucket]
            if beyond < 0:
                middle_ns = 2 ** ((bucket + 0.5) / _BUCKETS_PER_OCTAVE)
                return round(min(middle_ns, self.max_ns) / 1000)
        return 0

    def record(self) -> dict[str, int | None]:
        """p50, p90, p99 and the maximum, in µs."""
        quantiles = {f"p{percent}": self.quantile_us(percent / 100) for percent in (50, 90, 99)}
        return quantiles | {"max": self.max_ns // 1000 if self.count else None}


@dataclass
class Tally:
    """What all clients of a flood did together."""

    sent: int = 0
    """Messages handed to a socket."""
    acknowledged: int = 0
    """Of these, those whose QoS 1 or 2 handshake is complete."""
    delivered: int = 0
    """Of these, those that came back."""
    duplicates: int = 0
    foreign: int = 0
    """Messages on a client's topic that are not its own."""
    disconnects: int = 0
    """Connections that the broker ended."""
    latency: Histogram = field(default_factory=Histogram)
    lateness: Histogram = field(default_factory=Histogram)
    """How long after its scheduled time a message was sent."""


class Session(asyncio.Protocol):
    """A connection with a clean session; alone, it only asks whether the broker answers."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._rest = b""
        self._awaited: asyncio.Future[bytes] | None = None
        self._closing = False

    async def open(
        self, address: tuple[str, int], client_id: str, way: Way, *, receive_buffer: int | None = None
    ) -> None:
        """Connect and wait for the CONNACK; raise OSError."""
        loop = asyncio.get_running_loop()
        sock = socket.socket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            if receive_buffer is not None:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
            await loop.sock_connect(sock, address)
            tls = way.credentials.tls
            await loop.create_connection(
                lambda: self, sock=sock, ssl=tls, server_hostname=None if tls is None else way.host
            )
            # After asyncio, which sets it on every connection by itself.
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(way.nodelay))
        except BaseException:
            sock.close()
            raise
        try:
            answer = await self._ask(packets.connect(client_id, way.credentials.user, way.credentials.password))
        except BaseException:
            self.abort()
            raise
        if answer != b"\x00\x00":
            self.abort()
            raise ConnectionRefusedError(f"the broker refused the connection (code {answer[-1] if answer else '-'})")

    async def subscribe(self, topic_filter: str, qos: int) -> None:
        """Subscribe and wait for the SUBACK; raise OSError where that QoS is not granted."""
        answer = await self._ask(packets.subscribe(1, topic_filter, qos))
        if answer[2:] != bytes([qos]):
            self.abort()
            raise ConnectionRefusedError(f"the broker did not grant QoS {qos} on {topic_filter}")

    @property
    def alive(self) -> bool:
        """Whether there still is a connection."""
        return self._transport is not None and not self._closing

    def close(self) -> None:
        """Say goodbye, without waiting."""
        if self.alive and self._transport is not None:
            self._closing = True
            self._transport.write(packets.DISCONNECT)
            self._transport.close()

    def abort(self) -> None:
        """Drop the connection and what is still to be written."""
        self._closing = True
        if self._transport is not None:
            self._transport.abort()

    def received(self, arrived: Iterable[Packet]) -> None:
        """Take the packets that are no answer to `open` or `subscribe`."""

    def lost(self) -> None:
        """The broker ended the connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """For asyncio."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """For asyncio."""
        try:
            arrived, self._rest = packets.split(self._rest + data if self._rest else data)
            if self._awaited is not None and arrived and arrived[0][0] in {packets.CONNACK, packets.SUBACK}:
                awaited, self._awaited = self._awaited, None
                if not awaited.done():
                    awaited.set_result(arrived.pop(0)[1])
            self.received(arrived)
        except PacketError:
            assert self._transport is not None
            self._transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """For asyncio."""
        self._transport = None
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_exception(ConnectionResetError(f"the broker closed the connection ({exc or 'at once'})"))
        elif not self._closing:
            self.lost()

    async def _ask(self, question: bytes) -> bytes:
        if self._transport is None:
            raise ConnectionResetError("the broker closed the connection")
        self._awaited = asyncio.get_running_loop().create_future()
        self._transport.write(question)
        return await self._awaited


@dataclass(frozen=True, slots=True)
class Traffic:
    """How a client is to publish."""

    payload_bytes: int
    qos: int
    saturate: bool = False
    """Send the next message when an earlier one is back, at most WINDOW on their way."""
    intended_ns: Callable[[int, int], int] | None = None
    """When a client (its number) is to send a message (its number there); None: as soon as it may."""


class FloodClient(Session):
    """Publishes to a topic of its own, gets it back, and counts both.

    `due` is how many messages it should have sent by now. What socket and windows do not take at once is sent later,
    and late: the schedule waits for nobody, and a debt is a number, not a queue.
    """

    def __init__(self, number: int, topic: str, traffic: Traffic, tally: Tally) -> None:
        super().__init__()
        self.topic = topic
        self.due = 0
        self.sent = 0
        self.awaited = 0
        """Number of the next message to come back. A topic keeps its order (§4.6), so all before are back or lost."""
        self.number = number
        self._traffic = traffic
        self._tally = tally
        self._topic = topic.encode()
        self._padding = b"." * (traffic.payload_bytes - SMALLEST_PAYLOAD)
        # At QoS 0 all of a message but its payload's header is known beforehand.
        self._prefix = packets.publish(self._topic, bytes(traffic.payload_bytes))[: -traffic.payload_bytes]
        self._free_ids = list(range(IN_FLIGHT, 0, -1)) if traffic.qos else []
        self._used_ids: set[int] = set()
        self._writable = True
        self._forgiven = 0

    @property
    def complete(self) -> bool:
        """Whether all it sent is back, and at QoS 1 and 2 acknowledged."""
        return self.awaited == self.sent and not self._used_ids

    def flush(self) -> None:
        """Send what is due, as far as socket and windows allow."""
        transport = self._transport
        while self._writable and transport is not None and (room := self._room()) > 0:
            transport.write(b"".join([self._next() for _ in range(min(room, _AT_ONCE))]))

    def halt(self) -> None:
        """Send no more."""
        self.due = self.sent

    def forgive(self) -> None:
        """Wait for nothing that is on its way, so that a client whose whole window was dropped goes on."""
        self._forgiven = self.sent
        self.flush()

    def received(self, arrived: Iterable[Packet]) -> None:
        """Count what came back, go on with the handshakes, and send what became possible."""
        answers = []
        for first, body in arrived:
            if first & 0xF0 == packets.PUBLISH:
                topic, packet_id, payload = packets.read_publish(first, body)
                self._count(topic, payload)
                if packet_id is not None:
                    kind = packets.PUBACK if first & 0x06 == 0x02 else packets.PUBREC
                    answers.append(packets.acknowledge(kind, packet_id))
            elif first == packets.PUBREC:
                answers.append(packets.acknowledge(packets.PUBREL, packets.read_identifier(body)))
            elif first == packets.PUBREL:
                answers.append(packets.acknowledge(packets.PUBCOMP, packets.read_identifier(body)))
            elif first in {packets.PUBACK, packets.PUBCOMP}:
                self._release(packets.read_identifier(body))
        if answers and self._transport is not None:
            self._transport.write(b"".join(answers))
        if self.due > self.sent:
            self.flush()

    def lost(self) -> None:
        """Count it; what was not sent stays unsent."""
        self._tally.disconnects += 1

    def pause_writing(self) -> None:
        """For asyncio: 64 kB wait for the broker to take them."""
        self._writable = False

    def resume_writing(self) -> None:
        """For asyncio."""
        self._writable = True
        self.flush()

    def _room(self) -> int:
        room = self.due - self.sent
        if self._traffic.qos:
            room = min(room, len(self._free_ids))
        if self._traffic.saturate:
            room = min(room, WINDOW - (self.sent - max(self.awaited, self._forgiven)))
        return room

    def _next(self) -> bytes:
        now_ns = time.monotonic_ns()
        traffic, tally = self._traffic, self._tally
        if traffic.intended_ns is not None:
            tally.lateness.add(now_ns - traffic.intended_ns(self.number, self.sent))
        header = _HEADER.pack(now_ns, self.sent)
        self.sent += 1
        tally.sent += 1
        if not traffic.qos:
            return b"%b%b%b" % (self._prefix, header, self._padding)
        packet_id = self._free_ids.pop()
        self._used_ids.add(packet_id)
        return packets.publish(self._topic, header + self._padding, traffic.qos, packet_id)

    def _count(self, topic: bytes, payload: bytes) -> None:
        now_ns = time.monotonic_ns()
        tally = self._tally
        if topic != self._topic or len(payload) != self._traffic.payload_bytes:
            tally.foreign += 1
            return
        sent_ns, number = _HEADER.unpack_from(payload)
        if number >= self.sent:
            tally.foreign += 1
        elif number < self.awaited:
            tally.duplicates += 1
        else:
            self.awaited = number + 1
            tally.delivered += 1
            tally.latency.add(now_ns - sent_ns)

    def _release(self, packet_id: int) -> None:
        if packet_id in self._used_ids:
            self._used_ids.remove(packet_id)
            self._free_ids.append(packet_id)
            self._tally.acknowledged += 1


class SlowConsumer(Session):
    """Subscribes to all that the flood publishes and never reads it, so that the broker's queue for it grows."""

    def __init__(self) -> None:
        super().__init__()
        self._clogged = False

    async def clog(self, topic_filter: str, qos: int) -> None:
        """Subscribe, then stop reading; raise OSError."""
        await self.subscribe(topic_filter, qos)
        if self._transport is None:
            raise ConnectionResetError("the broker closed the connection")
        self._transport.pause_reading()
        self._clogged = True

    @property
    def cut_off(self) -> bool:
        """Whether the broker is known to have had enough.

        Asked of the kernel, for who does not read does not see the end. A lower bound: an end that waits behind what
        is not read has not come yet.
        """
        if not self._clogged or self._transport is None:
            return self._clogged
        sock = self._transport.get_extra_info("socket")
        # The first byte of TCP_INFO is the state; other systems than Linux have no such thing.
        return sys.platform.startswith("linux") and bool(
            sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _TCP_ESTABLISHED
        )

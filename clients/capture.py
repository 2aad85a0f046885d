# SPDX-License-Identifier: Apache-2.0
"""Sees requests and answers pass the broker's network interface: where the time of a cycle goes.

It runs in the broker's network namespace, with CAP_NET_RAW alone, and never in a run that measures latency. Frames are
not messages: TCP streams are put together again, and a message has passed when the frame with its last byte has.
The kernel stamps frames by the wall clock, which may be set meanwhile: every stamp is turned into CLOCK_MONOTONIC, the
control loop's clock, as its frame is read.
Until a line comes on standard input it records; then it prints the messages as one JSON line.
"""

from __future__ import annotations

import json
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from clients import packets
from clients.wire import Answer, Request, WireError

_ETH_P_ALL = 3
_PACKET_OUTGOING = 4
_SO_TIMESTAMPNS = 35
_TIMESPEC = struct.Struct("@ll")
_BUFFER_BYTES = 8 << 20
_FIRST_READINGS = 10
"""Of the clocks, before the first frame; the one that was interrupted least counts."""

Frame = tuple[int, bool, bytes]
"""When it passed (ns, CLOCK_MONOTONIC), whether it left the broker, and its IP packet."""
Message = tuple[int, str, str, int, int]
"""When it passed (ns, CLOCK_MONOTONIC), `in` or `out`, `request` or `answer`, repetition, sequence."""


class WallClock:
    """What CLOCK_MONOTONIC showed when CLOCK_REALTIME showed a stamp, both read anew with every frame.

    Reading one clock between two readings of the other bounds their offset. While the last known one is within these
    bounds it stays: being preempted between the readings adds no jitter, and a clock that was set is followed at once.
    """

    def __init__(
        self, realtime_ns: Callable[[], int] = time.time_ns, monotonic_ns: Callable[[], int] = time.monotonic_ns
    ) -> None:
        self._realtime_ns, self._monotonic_ns = realtime_ns, monotonic_ns
        low_ns, high_ns = min((self._bounds_ns() for _ in range(_FIRST_READINGS)), key=lambda pair: pair[1] - pair[0])
        self._offset_ns = (low_ns + high_ns) // 2
        self.moved_ns = 0
        """By how much the wall clock moved against the monotonic one in all, to and fro."""

    def monotonic_ns(self, stamp_ns: int) -> int:
        """Turn the stamp of a frame that has just been read."""
        low_ns, high_ns = self._bounds_ns()
        if not low_ns <= self._offset_ns <= high_ns:
            now_ns = (low_ns + high_ns) // 2
            self.moved_ns += abs(now_ns - self._offset_ns)
            self._offset_ns = now_ns
        return stamp_ns + self._offset_ns

    def _bounds_ns(self) -> tuple[int, int]:
        before_ns, wall_ns, after_ns = self._monotonic_ns(), self._realtime_ns(), self._monotonic_ns()
        return before_ns - wall_ns, after_ns - wall_ns


@dataclass
class Stream:
    """One direction of one TCP connection."""

    next_byte: int | None = None
    pending: bytes = b""
    gaps: int = 0

    def take(self, first_byte: int, payload: bytes) -> list[packets.Packet]:
        """Return the MQTT packets that this segment completes; repeated bytes are passed over, a gap starts afresh."""
        if self.next_byte is not None and first_byte != self.next_byte:
            repeated = (self.next_byte - first_byte) & 0xFFFFFFFF
            if repeated < 1 << 31:
                payload, first_byte = payload[repeated:], self.next_byte
            else:
                self.gaps, self.pending = self.gaps + 1, b""
        if not payload:
            return []
        self.next_byte = (first_byte + len(payload)) & 0xFFFFFFFF
        try:
            packets_seen, self.pending = packets.split(self.pending + payload)
        except packets.PacketError:  # after a gap the middle of a packet looks like its beginning
            self.gaps, self.pending = self.gaps + 1, b""
            return []
        return packets_seen


@dataclass
class Dissection:
    """From frames to messages of the testbed."""

    port: int
    messages: list[Message] = field(default_factory=list)
    streams: dict[bytes, Stream] = field(default_factory=dict)

    def take(self, frame: Frame) -> None:
        """Add the messages that this frame completes."""
        passed_ns, outgoing, packet = frame
        segment = tcp_segment(packet, self.port)
        if segment is None:
            return
        ends, first_byte, payload = segment
        for first, body in self.streams.setdefault(ends, Stream()).take(first_byte, payload):
            if first & 0xF0 == packets.PUBLISH:
                self._publish(passed_ns, "out" if outgoing else "in", first, body)

    def _publish(self, passed_ns: int, direction: str, first: int, body: bytes) -> None:
        try:
            topic, _, payload = packets.read_publish(first, body)
            kind = topic.split(b"/")[2].decode()
            message = (Request if kind == "request" else Answer).decode(payload)
        except (packets.PacketError, WireError, IndexError, UnicodeDecodeError):
            return  # somebody else's message, e.g. the flood's
        self.messages.append((passed_ns, direction, kind, message.repetition, message.sequence))


def tcp_segment(packet: bytes, port: int) -> tuple[bytes, int, bytes] | None:
    """Return (addresses and ports, sequence number, payload) of an IPv4 packet from or to `port`; None of others."""
    if len(packet) < 20 or packet[0] >> 4 != 4 or packet[9] != socket.IPPROTO_TCP:
        return None
    at, total = (packet[0] & 15) * 4, int.from_bytes(packet[2:4], "big")
    if len(packet) < at + 20 or port not in struct.unpack_from("!HH", packet, at):
        return None
    data_at = at + (packet[at + 12] >> 4) * 4
    return packet[12:20] + packet[at : at + 4], int.from_bytes(packet[at + 4 : at + 8], "big"), packet[data_at:total]


def main() -> int:
    """Capture until told to stop; print what passed."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(_ETH_P_ALL)) as sock:
        sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _BUFFER_BYTES)
        print(json.dumps({"event": "capturing"}), flush=True)
        frames: list[Frame] = []
        clock = WallClock()
        while sys.stdin not in (ready := select.select([sock, sys.stdin], [], [])[0]):
            if ready:
                frames.append(_receive(sock, clock))
        os.read(sys.stdin.fileno(), 4096)
        dropped = struct.unpack("@II", sock.getsockopt(263, 6, 8))[1]  # SOL_PACKET, PACKET_STATISTICS
    dissection = Dissection(int(os.environ.get("BROKER_PORT", "1883")))
    for frame in frames:
        dissection.take(frame)
    gaps = sum(stream.gaps for stream in dissection.streams.values())
    missed = {"gaps": gaps, "dropped": dropped, "clock_moved_us": clock.moved_ns // 1000}
    print(json.dumps({"event": "messages", "messages": dissection.messages, **missed}), flush=True)
    return 0


def _receive(sock: socket.socket, clock: WallClock) -> Frame:
    packet, ancillary, _, address = sock.recvmsg(65536, socket.CMSG_SPACE(_TIMESPEC.size))
    seconds, nanoseconds = _TIMESPEC.unpack(ancillary[0][2][: _TIMESPEC.size])
    return clock.monotonic_ns(seconds * 1_000_000_000 + nanoseconds), address[2] == _PACKET_OUTGOING, packet


if __name__ == "__main__":
    sys.exit(main())

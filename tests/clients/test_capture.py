# SPDX-License-Identifier: Apache-2.0
"""From frames to messages: what a capture must see whatever way TCP cuts the stream."""

from __future__ import annotations

import itertools
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients import packets
from clients.capture import Dissection, WallClock, tcp_segment
from clients.wire import Request

PORT = 1883
RUN = "0123abcd"


def ip_packet(payload: bytes, first_byte: int, source_port: int = 40000) -> bytes:
    tcp = struct.pack("!HHIIBBHHH", source_port, PORT, first_byte & 0xFFFFFFFF, 0, 5 << 4, 0x18, 512, 0, 0)
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40 + len(payload), 0, 0, 64, 6, 0, b"\x0a\0\0\1", b"\x0a\0\0\2")
    return head + tcp + payload


def published(sequence: int, qos: int = 0) -> bytes:
    payload = Request(RUN, 3, sequence, 0).encode()
    return packets.publish(f"testbed/{RUN}/request/{qos}".encode(), payload, qos, 7 if qos else None)


def seen(dissection: Dissection) -> list[int]:
    return [sequence for _, _, _, _, sequence in dissection.messages]


@given(cuts=st.lists(st.integers(1, 400), max_size=12), first_byte=st.sampled_from([1, 2**32 - 50]))
def test_every_message_is_seen_once_however_the_stream_is_cut(cuts: list[int], first_byte: int) -> None:
    stream = b"".join(published(sequence, sequence % 3) for sequence in range(6))
    borders = [0, *sorted({cut for cut in cuts if cut < len(stream)}), len(stream)]
    dissection = Dissection(PORT)
    for passed_ns, (begin, end) in enumerate(itertools.pairwise(borders)):
        dissection.take((passed_ns, False, ip_packet(stream[begin:end], first_byte + begin)))
    assert seen(dissection) == list(range(6))


def test_a_message_has_passed_with_its_last_byte_and_in_its_direction() -> None:
    stream = published(4)
    dissection = Dissection(PORT)
    dissection.take((10, True, ip_packet(stream[:9], 100)))
    dissection.take((20, True, ip_packet(stream[9:], 109)))
    assert dissection.messages == [(20, "out", "request", 3, 4)]


def test_a_repeated_segment_counts_once_and_a_gap_is_counted() -> None:
    dissection = Dissection(PORT)
    first, third = published(1), published(3)
    for _ in range(2):
        dissection.take((1, False, ip_packet(first, 100)))
    dissection.take((2, False, ip_packet(third, 100 + len(first) + 40)))
    assert seen(dissection) == [1, 3]
    assert sum(stream.gaps for stream in dissection.streams.values()) == 1


def test_what_is_not_the_testbeds_is_passed_over() -> None:
    dissection = Dissection(PORT)
    flood = packets.publish(b"testbed/flood/0123abcd/1", b"xxxxxxxx")
    dissection.take((1, False, ip_packet(flood, 1)))
    dissection.take((1, False, b"\x60" + bytes(60)))
    assert tcp_segment(ip_packet(b"x", 1), 1884) is None
    assert dissection.messages == []


class Clocks:
    """A monotonic clock, and a wall clock that an administrator moves; reading either takes 100 ns."""

    def __init__(self) -> None:
        self.now_ns, self.wall_ahead_ns, self.pause_ns = 5_000_000_000, 1_700_000_000_000_000_000, 0

    def monotonic_ns(self) -> int:
        self.now_ns += 100
        return self.now_ns

    def realtime_ns(self) -> int:
        self.now_ns += 100 + self.pause_ns
        return self.now_ns + self.wall_ahead_ns


def stamped(clocks: Clocks, wall: WallClock) -> int:
    """How far a frame that passes now lands from the moment it passed (ns, CLOCK_MONOTONIC)."""
    passed_ns = clocks.now_ns
    return wall.monotonic_ns(passed_ns + clocks.wall_ahead_ns) - passed_ns


def test_a_wall_clock_that_is_slewed_or_set_between_two_frames_moves_neither() -> None:
    clocks = Clocks()
    wall = WallClock(clocks.realtime_ns, clocks.monotonic_ns)
    for _ in range(100):
        clocks.now_ns += 10_000_000
        clocks.wall_ahead_ns += 5_000  # 500 ppm, the most that adjtime(3) slews
        assert abs(stamped(clocks, wall)) <= 200
    assert wall.moved_ns == pytest.approx(500_000, rel=0.01)
    clocks.wall_ahead_ns -= 2_000_000_000
    assert abs(stamped(clocks, wall)) <= 200
    assert wall.moved_ns == pytest.approx(2_000_500_000, rel=0.01)


def test_being_preempted_between_the_readings_of_two_clocks_moves_no_frame() -> None:
    clocks = Clocks()
    wall = WallClock(clocks.realtime_ns, clocks.monotonic_ns)
    clocks.pause_ns = 40_000_000
    assert abs(stamped(clocks, wall)) <= 200
    assert wall.moved_ns == 0

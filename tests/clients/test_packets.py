# SPDX-License-Identifier: Apache-2.0
"""The packets of the load generator: what is written comes back, however the stream is cut."""

from __future__ import annotations

import contextlib
import itertools

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from clients import packets
from clients.packets import PacketError

topics = st.text(min_size=1, max_size=40).map(str.encode)
identifiers = st.integers(1, 65535)
publishes = st.one_of(
    st.tuples(topics, st.binary(max_size=300), st.just(0), st.none()),
    st.tuples(topics, st.binary(max_size=300), st.sampled_from([1, 2]), identifiers),
)
acknowledgements = st.tuples(
    st.sampled_from([packets.PUBACK, packets.PUBREC, packets.PUBREL, packets.PUBCOMP]), identifiers
)


@given(publishes)
def test_a_message_comes_back_as_it_was(message: tuple[bytes, bytes, int, int | None]) -> None:
    topic, payload, qos, packet_id = message
    [(first, body)], rest = packets.split(packets.publish(topic, payload, qos, packet_id))
    assert (first, rest) == (packets.PUBLISH | qos << 1, b"")
    assert packets.read_publish(first, body) == (topic, packet_id, payload)


@given(acknowledgements)
def test_an_acknowledgement_comes_back_as_it_was(acknowledgement: tuple[int, int]) -> None:
    kind, packet_id = acknowledgement
    assert packets.split(packets.acknowledge(kind, packet_id)) == ([(kind, packet_id.to_bytes(2, "big"))], b"")
    assert packets.read_identifier(packet_id.to_bytes(2, "big")) == packet_id


@given(
    st.lists(publishes.map(lambda message: packets.publish(*message)), max_size=5).map(b"".join),
    st.lists(st.integers(0, 2000), max_size=6),
)
@example(packets.publish(b"t", bytes(200)), [1, 2, 3])
def test_a_stream_gives_the_same_packets_wherever_it_is_cut(stream: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    found, rest = [], b""
    for begin, end in itertools.pairwise(edges):
        arrived, rest = packets.split(rest + stream[begin:end])
        found += arrived
    assert (found, rest) == packets.split(stream)
    assert rest == b""


@pytest.mark.parametrize(("length", "digits"), [(127, 1), (128, 2), (16383, 2), (16384, 3), (2097151, 3), (2097152, 4)])
def test_lengths_at_the_edges_of_their_coding(length: int, digits: int) -> None:
    packet = packets.publish(b"t", bytes(length - 3))
    assert len(packet) == 1 + digits + length
    [(_, body)], rest = packets.split(packet)
    assert (len(body), rest) == (length, b"")


@given(st.binary())
def test_garbage_raises_packet_error_and_nothing_else(data: bytes) -> None:
    with contextlib.suppress(PacketError):
        arrived, rest = packets.split(data)
        assert sum(2 + len(body) for _, body in arrived) + len(rest) <= len(data)
        for first, body in arrived:
            packets.read_publish(first, body)


def test_a_length_of_five_bytes_is_refused() -> None:
    with pytest.raises(PacketError):
        packets.split(b"\x30\xff\xff\xff\xff\x01")


@pytest.mark.parametrize(
    ("first", "body"), [(0x30, b""), (0x30, b"\x00\x05ab"), (0x32, b"\x00\x01a\x00"), (0x36, bytes(9))]
)
def test_a_truncated_or_forbidden_publish_is_refused(first: int, body: bytes) -> None:
    with pytest.raises(PacketError):
        packets.read_publish(first, body)

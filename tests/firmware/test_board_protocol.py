# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware.protocol import ErrorCode, Reply, answer, crc8, decode_reply, encode_request

ids = st.integers(0, 0xFFFF)
temperatures = st.integers(-32768, 32767)


def request_text(request_id: int) -> bytes:
    return encode_request(request_id).removesuffix(b"\n")


def test_the_checksum_has_the_catalogued_check_value() -> None:
    # CRC-8/SMBUS, https://reveng.sourceforge.io/crc-catalogue/all.htm
    assert crc8(b"123456789") == 0xF4


def test_the_documented_example_is_true() -> None:
    assert encode_request(0x0001) == b"?000140\n"
    assert answer(b"?000140", 2345) == b"=0001+02345EE\n"


@given(ids, temperatures)
def test_an_answer_carries_the_id_and_the_temperature(request_id: int, temperature: int) -> None:
    reply = answer(request_text(request_id), temperature)
    assert decode_reply(reply) == Reply(request_id, temperature, None)


@given(ids, temperatures)
def test_every_frame_has_the_same_width_so_r_does_not_depend_on_the_cycle(request_id: int, temperature: int) -> None:
    assert len(encode_request(request_id)) == 8
    assert len(answer(request_text(request_id), temperature)) == 14


@given(ids, temperatures, st.integers(0, 13), st.integers(1, 255))
def test_an_answer_with_one_damaged_byte_is_no_answer(request_id: int, temperature: int, at: int, flip: int) -> None:
    reply = bytearray(answer(request_text(request_id), temperature))
    reply[at] ^= flip
    with pytest.raises(ValueError, match=r"answer|checksum"):
        decode_reply(bytes(reply))


@given(ids, st.integers(0, 6), st.integers(1, 255).filter(lambda flip: flip))
def test_a_request_with_one_damaged_byte_is_refused(request_id: int, at: int, flip: int) -> None:
    damaged = bytearray(request_text(request_id))
    damaged[at] ^= flip
    for line in filter(None, bytes(damaged).split(b"\n")):
        reply = decode_reply(answer(line, 2345))
        assert reply.error is not None
        assert reply.request_id is None


@given(ids, ids, temperatures, st.data())
def test_two_answers_merged_into_one_line_are_no_answer(
    one: int, other: int, temperature: int, data: st.DataObject
) -> None:
    first, second = answer(request_text(one), temperature), answer(request_text(other), temperature)
    # The newline and perhaps more got lost between them.
    merged = first[: data.draw(st.integers(1, 13))] + second
    with pytest.raises(ValueError, match=r"answer|checksum"):
        decode_reply(merged)


@given(ids, temperatures, st.integers(0, 13))
def test_a_truncated_answer_is_no_answer(request_id: int, temperature: int, length: int) -> None:
    with pytest.raises(ValueError, match="not an answer"):
        decode_reply(answer(request_text(request_id), temperature)[:length])


@given(st.binary(max_size=20))
def test_whatever_arrives_decodes_or_is_a_value_error(line: bytes) -> None:
    try:
        reply = decode_reply(line)
    except ValueError:
        return
    assert (reply.error is None) != (reply.temperature_centi is None)


@pytest.mark.parametrize("line", [b"# testbed-board 1\n", b"\n", b"", b"?000140\n"])
def test_what_is_not_an_answer_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError, match="not an answer"):
        decode_reply(line)


@pytest.mark.parametrize("request_id", [-1, 0x10000])
def test_an_id_that_does_not_fit_is_refused(request_id: int) -> None:
    with pytest.raises(ValueError, match="not in"):
        encode_request(request_id)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"?000141", ErrorCode.BAD_CHECKSUM),
        (b"?00FFf3", ErrorCode.BAD_FRAME),
        (b"\r", ErrorCode.BAD_FRAME),
        (b"?00014", ErrorCode.BAD_FRAME),
        (b"?0001400", ErrorCode.TOO_LONG),
    ],
)
def test_a_line_that_is_no_request_is_told_why_but_no_id(line: bytes, error: ErrorCode) -> None:
    assert decode_reply(answer(line, 2345)) == Reply(None, None, error)

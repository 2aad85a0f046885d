# SPDX-License-Identifier: Apache-2.0
"""The board's serial protocol (PROTOCOL.md), both halves, without any input or output.

The host's half (`encode_request`, `decode_reply`) is what the Pi bridge speaks; the board's half
(`answer`) does for the timing model what sketch/protocol.c does for the sketch.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

VERSION = 1
COMMENT = b"#"
"""Begins a line that a host ignores."""
BANNER = COMMENT + b" testbed-board"
"""Begins the comment that a board says after a reset; the protocol's version follows."""
MAX_ID = 0xFFFF
REQUEST_LENGTH = 7
"""Characters of a request, without its newline."""

_REQUEST = re.compile(rb"(\?([0-9A-F]{4}))([0-9A-F]{2})")
_REPLY = re.compile(rb"(=([0-9A-F]{4})([+-][0-9]{5}))([0-9A-F]{2})\n")
_ERROR = re.compile(rb"(!([0-9A-F]{4}|----)([0-9]{2}))([0-9A-F]{2})\n")


class ErrorCode(IntEnum):
    """Why the board did not answer with a temperature."""

    BAD_CHECKSUM = 1
    BAD_FRAME = 2
    TOO_LONG = 3
    SENSOR_OPEN = 4
    SENSOR_SHORT = 5


@dataclass(frozen=True, slots=True)
class Reply:
    """What the board said: exactly one of temperature and error is set."""

    request_id: int | None
    """None if the board could not read the request's id."""
    temperature_centi: int | None
    """Hundredths of a degree Celsius."""
    error: ErrorCode | None


def crc8(data: bytes) -> int:
    """CRC-8 with the polynomial x^8 + x^2 + x + 1, initially 0."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1) ^ 0x107 if crc & 0x80 else crc << 1
    return crc


def encode_request(request_id: int) -> bytes:
    """Ask for the temperature, in one line. Raises ValueError unless 0 <= id <= MAX_ID."""
    if not 0 <= request_id <= MAX_ID:
        raise ValueError(f"request id {request_id} is not in 0..{MAX_ID}")
    return _seal(b"?%04X" % request_id)


def decode_reply(line: bytes) -> Reply:
    """Read a line from the board, newline included.

    Raises ValueError for anything that is not exactly one undamaged answer.
    """
    if reply := _REPLY.fullmatch(line):
        _check(reply)
        return Reply(int(reply[2], 16), int(reply[3]), None)
    if error := _ERROR.fullmatch(line):
        _check(error)
        request_id = None if error[2] == b"----" else int(error[2], 16)
        return Reply(request_id, None, ErrorCode(int(error[3])))
    raise ValueError(f"not an answer: {line!r}")


def answer(line: bytes, temperature_centi: int) -> bytes:
    """Answer a line, given without its newline, as a board at this temperature does."""
    if not line:
        return b""
    if len(line) > REQUEST_LENGTH:
        return _error(ErrorCode.TOO_LONG)
    request = _REQUEST.fullmatch(line)
    if not request:
        return _error(ErrorCode.BAD_FRAME)
    if crc8(request[1]) != int(request[3], 16):
        return _error(ErrorCode.BAD_CHECKSUM)
    return _seal(b"=%s%+06d" % (request[2], temperature_centi))


def _seal(text: bytes) -> bytes:
    return b"%s%02X\n" % (text, crc8(text))


def _error(code: ErrorCode) -> bytes:
    return _seal(b"!----%02d" % code)


def _check(match: re.Match[bytes]) -> None:
    """Group 1 is what the last group, the checksum, vouches for."""
    text, checksum = match[1], match[match.re.groups]
    if crc8(text) != int(checksum, 16):
        raise ValueError(f"bad checksum: {match[0]!r}")

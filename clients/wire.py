# SPDX-License-Identifier: Apache-2.0
"""The wire format, version 1: what a request and its answer carry.

Payloads are ASCII, fields parted by one space, so that `mosquitto_sub -t 'testbed/#'` is readable:

    request  1 <run> <repetition> <sequence> <qos_answer>
    answer   1 <run> <repetition> <sequence> <r_us> <outcome> <board> <temperature_centi> <qos_request> <repeats>

`run` is 8 hex digits, `repetition` and `sequence` are decimal and tell every cycle of a run apart.
The request says at which QoS it wants its answer, so the Pi needs no configuration per cell.
`r_us` is the Pi's own R in µs; `outcome` is `ok` or why the board has no answer to give;
`temperature_centi` is in hundredths of a degree Celsius (0 unless ok); `qos_request` is the QoS at which the request
reached the Pi; `repeats` counts the board's answers to questions it had answered before, since the Pi started.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

VERSION = "1"

Outcome = Literal["ok", "board-timeout", "board-error"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)

_RUN = re.compile(r"[0-9a-f]{8}\Z")
BOARD = re.compile(r"[a-z][a-z0-9-]*\Z")
_NATURAL = re.compile(r"(0|[1-9][0-9]{0,11})\Z")
_INTEGER = re.compile(r"(0|-?[1-9][0-9]{0,11})\Z")


class WireError(ValueError):
    """A payload that this version of the wire format does not allow."""


def request_topic(run: str, qos: int) -> str:
    """Where the requests of a run are published at a QoS; `+` for the requests of every run.

    A topic of its own for each QoS, for some brokers deliver at the subscription's QoS instead of the message's.
    """
    return f"testbed/{run}/request/{qos}"


def answer_topic(run: str) -> str:
    """Where the answers of a run are published."""
    return f"testbed/{run}/answer"


PI_TOPIC = "testbed/pi"
"""Where the Pi leaves, retained, what its own connection is protected by: JSON, as `security.of_connection`."""


@dataclass(frozen=True, slots=True)
class Request:
    """One cycle's question."""

    run: str
    repetition: int
    sequence: int
    qos_answer: int

    def encode(self) -> bytes:
        """The payload; ASCII."""
        return b"%s %s %d %d %d" % (
            VERSION.encode(), self.run.encode(), self.repetition, self.sequence, self.qos_answer,
        )  # fmt: skip

    @classmethod
    def decode(cls, payload: bytes) -> Request:
        """Read a payload; raise WireError where it is not exactly a request."""
        run, repetition, sequence, qos_answer = _fields(payload, 4)
        return cls(_run(run), _natural(repetition), _natural(sequence), _qos(qos_answer))


@dataclass(frozen=True, slots=True)
class Answer:
    """One cycle's answer, with the Pi's own time in it."""

    run: str
    repetition: int
    sequence: int
    r_us: int
    outcome: Outcome
    board: str
    temperature_centi: int
    qos_request: int
    repeats: int

    def encode(self) -> bytes:
        """The payload; ASCII."""
        return b"%s %s %d %d %d %s %s %d %d %d" % (
            VERSION.encode(), self.run.encode(), self.repetition, self.sequence, self.r_us,
            self.outcome.encode(), self.board.encode(), self.temperature_centi, self.qos_request, self.repeats,
        )  # fmt: skip

    @classmethod
    def decode(cls, payload: bytes) -> Answer:
        """Read a payload; raise WireError where it is not exactly an answer."""
        run, repetition, sequence, r_us, outcome, board, temperature, qos_request, repeats = _fields(payload, 9)
        if outcome not in OUTCOMES:
            raise WireError(f"outcome {outcome!r}: {', '.join(OUTCOMES)} are allowed")
        if not BOARD.match(board):
            raise WireError(f"board {board!r}: a lower-case word is allowed")
        if not _INTEGER.match(temperature):
            raise WireError(f"{temperature!r} is no integer")
        return cls(
            _run(run), _natural(repetition), _natural(sequence), _natural(r_us), outcome, board, int(temperature),
            _qos(qos_request), _natural(repeats),
        )  # fmt: skip


def _fields(payload: bytes, count: int) -> list[str]:
    try:
        version, *fields = payload.decode("ascii").split(" ")
    except UnicodeDecodeError:
        raise WireError("not ASCII") from None
    if version != VERSION:
        raise WireError(f"version {version!r}: this end speaks version {VERSION}")
    if len(fields) != count:
        raise WireError(f"{len(fields)} fields after the version: {count} are expected")
    return fields


def _run(text: str) -> str:
    if not _RUN.match(text):
        raise WireError(f"run {text!r}: 8 hex digits are expected")
    return text


def _natural(text: str) -> int:
    if not _NATURAL.match(text):
        raise WireError(f"{text!r} is no natural number")
    return int(text)


def _qos(text: str) -> int:
    if text not in ("0", "1", "2"):
        raise WireError(f"QoS {text!r}: 0, 1 or 2 are allowed")
    return int(text)

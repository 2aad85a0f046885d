# SPDX-License-Identifier: Apache-2.0
"""The board as the bridge sees it: one question at a time, each answered, refused or timed out.

The thesis matched replies by their order; one merged serial read then gave every later cycle a wrong R.
Here a reply counts only if it carries the id of the one question that is open.
"""

from __future__ import annotations

import contextlib
import os
import termios
import time
from collections import deque
from dataclasses import asdict, dataclass
from typing import Protocol

import serial

from clients.wire import Outcome, Request
from firmware import protocol

BAUD = 57_600
TIMEOUT_NS = 100_000_000
"""A reply takes 4.3 ms; a board silent for 100 ms has lost the question."""
REOPEN_NS = 100_000_000
QUEUE = 1000
_MAX_LINE = 64


@dataclass(slots=True)
class Question:
    """A request on its way through the board; `r1_ns` is when it reached the Pi (CLOCK_MONOTONIC)."""

    request: Request
    r1_ns: int
    qos_request: int
    outcome: Outcome = "board-error"
    temperature_centi: int = 0
    r2_ns: int = 0

    def answered(self, outcome: Outcome, temperature_centi: int = 0) -> Question:
        """Close the question: this is where R ends."""
        self.r2_ns = time.monotonic_ns()
        self.outcome, self.temperature_centi = outcome, temperature_centi
        return self


class Board(Protocol):
    """What the bridge needs of a board."""

    done: deque[Question]
    """Closed questions, for the bridge to publish."""

    def ask(self, question: Question) -> None:
        """Put the question now, or when its turn comes."""

    def descriptors(self) -> list[int]:
        """What to wait for beside the network."""

    def wake_ns(self) -> int | None:
        """When to call `tick` even if nothing is readable; None: not needed."""

    def read(self) -> None:
        """Take what a readable descriptor holds."""

    def tick(self) -> None:
        """Time out what is overdue, reopen what is closed."""

    def forget(self) -> None:
        """Drop every open question: nobody waits for it any more."""

    def statistics(self) -> dict[str, int]:
        """What went wrong so far, by kind."""


class NoBoard:
    """The thesis' ideal board: an answer at once."""

    def __init__(self) -> None:
        self.done: deque[Question] = deque()

    def ask(self, question: Question) -> None:
        """Answer on the spot."""
        self.done.append(question.answered("ok"))

    def descriptors(self) -> list[int]:
        """None: there is no port."""
        return []

    def wake_ns(self) -> int | None:
        """Never: nothing is ever open."""
        return None

    def read(self) -> None:
        """Nothing to read."""

    def tick(self) -> None:
        """Nothing to time out."""

    def forget(self) -> None:
        """Nothing is open, only closed."""
        self.done.clear()

    def statistics(self) -> dict[str, int]:
        """Nothing goes wrong."""
        return {}


@dataclass(slots=True)
class _Faults:
    timeouts: int = 0
    errors: int = 0
    late_replies: int = 0
    repeats: int = 0
    garbage_lines: int = 0
    boots: int = 0
    """Banners: the board has started anew."""
    plugged: int = 0
    unplugged: int = 0
    overflows: int = 0


class SerialBoard:
    """A board behind a serial port that may reset when opened, babble, fall silent, vanish and come back."""

    def __init__(self, path: str) -> None:
        self.done: deque[Question] = deque()
        self._path = path
        self._port: serial.Serial | None = None
        self._waiting: deque[Question] = deque()
        self._open: Question | None = None
        self._id = 0
        self._answered_id: int | None = None
        self._deadline_ns = 0
        self._reopen_ns = 0
        self._line = b""
        self._faults = _Faults()
        self.tick()

    def ask(self, question: Question) -> None:
        """Queue the question; it is put as soon as the board is free."""
        if len(self._waiting) >= QUEUE:
            self._faults.overflows += 1
            self.done.append(question.answered("board-error"))
            return
        self._waiting.append(question)
        self._put_next()

    def descriptors(self) -> list[int]:
        """The port, while it is open."""
        return [] if self._port is None else [self._port.fileno()]

    def wake_ns(self) -> int | None:
        """The open question's deadline, or the next attempt to open the port."""
        if self._port is None:
            return self._reopen_ns
        return None if self._open is None else self._deadline_ns

    def read(self) -> None:
        """Take the bytes there are; close the open question if its reply is among them."""
        if self._port is None:
            return
        try:
            self._line += self._port.read(4096)
        except OSError:
            self._unplug()
            self._put_next()  # which fails what still waits
            return
        *lines, self._line = self._line.split(b"\n")
        self._line = self._line[-_MAX_LINE:]
        for line in lines:
            self._understand(line + b"\n")
        self._put_next()

    def tick(self) -> None:
        """Give up on a silent board, try to open an absent one."""
        now_ns = time.monotonic_ns()
        if self._open is not None and now_ns >= self._deadline_ns:
            self._faults.timeouts += 1
            self._close("board-timeout")
            self._put_next()
        if self._port is None and now_ns >= self._reopen_ns:
            self._plug(now_ns)

    def forget(self) -> None:
        """Drop the queue; a reply to the question that is open will be stale."""
        self._waiting.clear()
        self.done.clear()
        self._open = None

    def statistics(self) -> dict[str, int]:
        """Counts by kind of fault."""
        return asdict(self._faults)

    def _put_next(self) -> None:
        while self._open is None and self._waiting:
            self._open = self._waiting.popleft()
            self._id = (self._id + 1) & protocol.MAX_ID
            self._deadline_ns = time.monotonic_ns() + TIMEOUT_NS
            if self._port is None:
                self._close("board-error")
                continue
            try:
                _write(self._port, protocol.encode_request(self._id))
            except OSError:
                self._unplug()

    def _understand(self, line: bytes) -> None:
        if line.startswith(protocol.COMMENT) or line == b"\n":
            self._faults.boots += line.startswith(protocol.BANNER)
            return
        try:
            reply = protocol.decode_reply(line)
        except ValueError:
            self._faults.garbage_lines += 1
            return
        if reply.request_id is None:
            # An error without an id cannot be laid at any question's door: the deadline decides.
            self._faults.errors += 1
        elif reply.request_id == self._answered_id:
            self._faults.repeats += 1
        elif self._open is None or reply.request_id != self._id:
            self._faults.late_replies += 1
        elif reply.temperature_centi is None:
            self._faults.errors += 1
            self._answered_id = self._id
            self._close("board-error")
        else:
            self._answered_id = self._id
            self._close("ok", reply.temperature_centi)

    def _close(self, outcome: Outcome, temperature_centi: int = 0) -> None:
        if self._open is not None:
            self.done.append(self._open.answered(outcome, temperature_centi))
            self._open = None

    def _plug(self, now_ns: int) -> None:
        self._reopen_ns = now_ns + REOPEN_NS
        try:
            # Exclusive: a second reader would steal replies. Never waits, neither to read nor to write. What lay in the
            # port before is discarded by pyserial as it opens it.
            self._port = serial.Serial(self._path, BAUD, timeout=0, exclusive=True)
            _write(self._port, b"\n")  # ends whatever half a line the board holds
            self._faults.plugged += 1
        except (OSError, termios.error):  # pyserial lets the latter through when the port vanishes as it is set up
            self._port = None
        self._line = b""

    def _unplug(self) -> None:
        self._faults.unplugged += 1
        if self._port is not None:
            self._port.close()
            self._port = None
        self._reopen_ns = time.monotonic_ns() + REOPEN_NS
        self._close("board-error")


def _write(port: serial.Serial, data: bytes) -> None:
    """Write without waiting: a board that no longer reads loses it (pyserial's own write would spin until it reads)."""
    with contextlib.suppress(BlockingIOError):
        os.write(port.fileno(), data)

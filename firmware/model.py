# SPDX-License-Identifier: Apache-2.0
"""A model of the board that needs no compiler: the right answers at the right times.

`python -m firmware.model` behaves like the simulated board (firmware/simavr) on a
pseudo-terminal. `Board` computes when the last stop bit of each answer leaves the board, from
the wire's byte times and the sketch's computing time; `run` waits for these moments. An answer
is released in two parts, each when its last stop bit is over: the newline, for which the host
waits, and before it all the rest at once. One part would wake a core from deep sleep at the
moment that matters, 0.1 ms too late; a part for every byte would take more CPU for nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import select
import signal
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass, field

from firmware import protocol
from firmware.port import Port, wait_precisely

BYTE_TO_BOARD_NS = 173_611
"""Ten bits at 57 600 baud, as a host sends them."""
BYTE_FROM_BOARD_NS = 170_000
"""Ten bits at 58 824 baud, the nearest that the ATmega2560 makes of 16 MHz."""
MEASURE_NS = 620_000
"""From a request's newline to the reply's start bit: ADC, Beta equation, checksums. Measured in
simulated cycles of the sketch; tests/firmware/test_board_timing.py holds it to that."""
REJECT_NS = 109_000
"""The same for an error reply, which measures nothing."""
BOOTLOADER_NS = 2_000_000_000
"""A Mega's bootloader waits this long for an upload before it starts the sketch."""

GARBAGE = b"=00Z7-0234\xff\x00\n" * 8 + b"=00"
"""What `babble` sends: damaged lines, and half a one that spoils the reply that comes next."""


@dataclass
class Board:
    """The board's state. All times are in ns on one monotonic clock."""

    temperature_centi: int
    outbox: deque[tuple[int, bytes]] = field(default_factory=deque)
    """What is under way, with the time when it has left the board."""
    _line: bytearray = field(default_factory=bytearray)
    _received_ns: int = 0
    _computed_ns: int = 0
    _sent_ns: int = 0
    _booted_ns: int = 0

    def reset(self, now_ns: int) -> None:
        """Stay silent while the bootloader waits, then say hello."""
        self.outbox.clear()
        self._line.clear()
        self._booted_ns = self._computed_ns = self._sent_ns = now_ns + BOOTLOADER_NS
        self._send(b"%s %d\n" % (protocol.BANNER, protocol.VERSION))

    def receive(self, data: bytes, now_ns: int) -> None:
        """Take bytes that the host sent now; they still have to travel."""
        if now_ns < self._booted_ns:
            return  # the bootloader swallows them
        self._received_ns = max(self._received_ns, now_ns)
        for byte in data:
            self._received_ns += BYTE_TO_BOARD_NS
            if byte == ord("\n"):
                self._answer()
            elif len(self._line) <= protocol.REQUEST_LENGTH:
                self._line.append(byte)

    def babble(self, now_ns: int) -> None:
        """Send what nobody asked for."""
        self._computed_ns = max(self._computed_ns, now_ns)
        self._send(GARBAGE)

    def _answer(self) -> None:
        reply = protocol.answer(bytes(self._line), self.temperature_centi)
        self._line.clear()
        if reply:
            compute_ns = MEASURE_NS if reply.startswith(b"=") else REJECT_NS
            self._computed_ns = max(self._computed_ns, self._received_ns) + compute_ns
            self._send(reply)

    def _send(self, text: bytes) -> None:
        self._sent_ns = max(self._sent_ns, self._computed_ns) + len(text) * BYTE_FROM_BOARD_NS
        self.outbox.append((self._sent_ns - BYTE_FROM_BOARD_NS, text[:-1]))
        self.outbox.append((self._sent_ns, text[-1:]))


@dataclass
class Stats:
    """What tells a disturbed model from a quiet one."""

    start_ns: int
    lateness_us: Counter[int] = field(default_factory=Counter)
    """How late each part of an answer was released."""
    bytes_in: int = 0
    bytes_out: int = 0

    def quantile_us(self, quantile: float) -> int:
        """Lateness by nearest rank; 0 if there was no answer."""
        rank = math.ceil(quantile * self.lateness_us.total())
        for late_us, count in sorted(self.lateness_us.items()):
            rank -= count
            if rank <= 0:
                return late_us
        return 0

    def print(self) -> None:
        """Write one line of JSON to stderr."""
        usage = resource.getrusage(resource.RUSAGE_SELF)
        stats = {
            "board": "model",
            "lateness_us": {
                "p50": self.quantile_us(0.5),
                "p99": self.quantile_us(0.99),
                "max": self.quantile_us(1),
            },
            "cpu_s": round(usage.ru_utime + usage.ru_stime, 3),
            "wall_s": round((time.monotonic_ns() - self.start_ns) / 1e9, 3),
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
        }
        print(json.dumps(stats), file=sys.stderr)


def run(port: Port, board: Board, stats: Stats, signalled: int, *, reset_on_open: bool) -> None:
    """Serve the port until a signal raises SystemExit; `signalled` is readable when one has been handled."""
    while True:
        timeout_s = None
        if board.outbox:
            timeout_s = max(0, board.outbox[0][0] - time.monotonic_ns()) / 1e9
        # select, because poll and epoll round to milliseconds; no thread and no spinning,
        # because the model must not take the CPU it is there to leave free.
        ready, _, _ = select.select([port.watch, port.master, signalled], [], [], timeout_s)
        now_ns = time.monotonic_ns()
        if signalled in ready:
            os.read(signalled, 64)  # what the handler put into the outbox changes how long to wait
        if port.watch in ready and port.opened() and reset_on_open:
            board.reset(now_ns)
        if port.master in ready:
            data = port.read()
            stats.bytes_in += len(data)
            board.receive(data, now_ns)
        while board.outbox and board.outbox[0][0] <= now_ns:
            due_ns, text = board.outbox.popleft()
            if written := port.write(text):
                stats.bytes_out += written
                stats.lateness_us[(time.monotonic_ns() - due_ns) // 1000] += 1


def main() -> None:
    """Parse the command line, say `ready PATH`, serve; on SIGTERM or SIGINT print the stats."""
    parser = argparse.ArgumentParser(
        prog="python -m firmware.model",
        description="A timing model of the board whose serial port is a pseudo-terminal. Prints "
        "`ready PATH` when that is open; on SIGTERM (or SIGUSR1) one line of JSON. SIGHUP resets the board, "
        "SIGUSR2 makes it send damaged lines.",
    )
    parser.add_argument("--ptmx", default="/dev/ptmx", metavar="PATH", help="pty multiplexer to open (%(default)s)")
    parser.add_argument(
        "--temperature",
        type=float,
        default=23.45,
        metavar="C",
        help="what the board answers, in degrees Celsius (%(default)s)",
    )
    parser.add_argument(
        "--reset-on-open",
        action="store_true",
        help="reset the board, 2 s of silence, whenever the port is opened",
    )
    parser.add_argument(
        "--fifo",
        type=int,
        metavar="PRIORITY",
        help="run under SCHED_FIFO, so that the model keeps its time",
    )
    arguments = parser.parse_args()
    if not -60 <= arguments.temperature <= 225:
        parser.error(f"--temperature {arguments.temperature}: want a number from -60 to 225")
    if arguments.fifo is not None:
        try:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(arguments.fifo))
        except (OSError, ValueError) as error:
            parser.exit(1, f"model: SCHED_FIFO {arguments.fifo} refused ({error})\n")
    try:
        port = Port(arguments.ptmx)
    except OSError as error:
        parser.exit(1, f"model: {error}\n")

    wait_precisely()
    stats = Stats(start_ns=time.monotonic_ns())
    signal.signal(signal.SIGUSR1, lambda *_: stats.print())
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit())
    board = Board(temperature_centi=round(arguments.temperature * 100))
    signal.signal(signal.SIGHUP, lambda *_: board.reset(time.monotonic_ns()))
    signal.signal(signal.SIGUSR2, lambda *_: board.babble(time.monotonic_ns()))
    signalled, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    print("ready", port.path, flush=True)
    try:
        run(port, board, stats, signalled, reset_on_open=arguments.reset_on_open)
    finally:
        stats.print()


if __name__ == "__main__":
    main()

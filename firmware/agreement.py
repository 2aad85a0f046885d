# SPDX-License-Identifier: Apache-2.0
"""Benchmark: R of the timing model against R of the simulated board, on this host.

Not a test, since a busy host can fail it: tests/firmware/test_board_timing.py proves the same in
simulated time. Needs the simulator (`make -C firmware`) and pyserial.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path

import serial

from firmware.port import wait_precisely
from firmware.protocol import decode_reply, encode_request

SIMULATOR = Path(__file__).parent / "build" / "board"
PROGRAMS = {
    "model": [sys.executable, "-m", "firmware.model"],
    "simavr": [str(SIMULATOR)],
}


def open_board(program: list[str], running: ExitStack) -> serial.Serial:
    """Start a board, which ends with `running`, and open its port."""
    process = running.enter_context(subprocess.Popen(program, stdout=subprocess.PIPE, text=True))
    running.callback(process.terminate)
    assert process.stdout is not None
    return running.enter_context(serial.Serial(process.stdout.readline().split()[1], 57600, timeout=1))


def round_trip_ms(port: serial.Serial, request_id: int) -> float:
    """One R in ms, as the Pi measures it: from the write to the newline."""
    sent_ns = time.monotonic_ns()
    port.write(encode_request(request_id))
    reply = decode_reply(port.read_until(b"\n"))
    if reply.request_id != request_id:
        raise RuntimeError(f"asked {request_id}, got {reply}")
    return (time.monotonic_ns() - sent_ns) / 1e6


def main() -> None:
    """Ask both boards in turn, so that whatever disturbs the host disturbs both alike."""
    parser = argparse.ArgumentParser(prog="python -m firmware.agreement", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--requests", type=int, default=200, help="to each board (%(default)s)")
    parser.add_argument("--interval-ms", type=float, default=20, help="between requests to one board (%(default)s)")
    arguments = parser.parse_args()
    if not SIMULATOR.exists():
        parser.exit(1, "no simulator: make -C firmware\n")

    wait_precisely()
    r_ms: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    with ExitStack() as running:
        ports = {name: open_board(program, running) for name, program in PROGRAMS.items()}
        start_s = time.monotonic()
        for turn in range(arguments.requests * len(ports)):
            name = list(ports)[turn % len(ports)]
            due_s = start_s + turn * arguments.interval_ms / 1000 / len(ports)
            time.sleep(max(0, due_s - time.monotonic()))
            r_ms[name].append(round_trip_ms(ports[name], turn // len(ports) % 0x10000))

    for name, values in r_ms.items():
        median, deviation = statistics.median(values), statistics.stdev(values)
        print(f"{name:8} R median {median:.3f} ms, sd {deviation:.3f} ms, {len(values)} requests")
    difference = statistics.median(r_ms["model"]) - statistics.median(r_ms["simavr"])
    print(f"model - simavr: {difference:+.3f} ms")


if __name__ == "__main__":
    main()

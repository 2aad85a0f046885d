# SPDX-License-Identifier: Apache-2.0
"""Both ends of an echo over plain TCP; standard library only.

`driver.py serve PORT` gives back what it gets. `driver.py ask HOST PORT` runs jobs, JSON lines on standard input, and
tells of them on standard output: `ready`, `samples`, `done`.
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time
from typing import Any

LEAD_NS = 20_000_000
HEAD = 8
"""Each message begins with its sequence, in so many bytes."""


def serve(port: int) -> None:
    """Give back what each connection sends, one connection after the other."""
    with socket.create_server(("", port)) as door:
        while True:
            connection, _ = door.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while data := connection.recv(65536):
                    connection.sendall(data)


def tell(**event: Any) -> None:
    """Write one JSON line, at once."""
    print(json.dumps(event), flush=True)


def run(job: dict[str, Any], connection: socket.socket) -> None:
    """Send on a fixed schedule, whatever comes back; tell of each cycle once all are answered or given up."""
    began_s, cpu_s = time.monotonic(), time.process_time()
    total, size = job["warmup"] + job["messages"], max(HEAD, job["size_bytes"])
    start_ns = time.monotonic_ns() + LEAD_NS
    rows: list[list[Any]] = [
        [sequence, start_ns + sequence * job["interval_ms"] * 1_000_000, None, None] for sequence in range(total)
    ]
    pending, following = b"", 0
    give_up_ns = rows[-1][1] + job["timeout_ms"] * 1_000_000
    while (now_ns := time.monotonic_ns()) < give_up_ns and any(row[3] is None for row in rows):
        if following < total and now_ns >= rows[following][1]:
            rows[following][2] = time.monotonic_ns()
            connection.sendall(following.to_bytes(HEAD, "big") + bytes(size - HEAD))
            following += 1
            continue
        until_ns = rows[following][1] if following < total else give_up_ns
        if select.select([connection], [], [], max(0, until_ns - now_ns) / 1e9)[0]:
            pending += connection.recv(65536)
            received_ns = time.monotonic_ns()
            while len(pending) >= size:
                rows[int.from_bytes(pending[:HEAD], "big")][3] = received_ns
                pending = pending[size:]
    tell(event="samples", rows=rows)
    tell(event="done", cpu_s=time.process_time() - cpu_s, elapsed_s=time.monotonic() - began_s)


def connect(host: str, port: int) -> socket.socket:
    """Return a connection, once the server serves; raises OSError after ten seconds."""
    give_up_s = time.monotonic() + 10
    while True:
        try:
            return socket.create_connection((host, port), timeout=10)
        except OSError:
            if time.monotonic() > give_up_s:
                raise
            time.sleep(0.02)


def ask(host: str, port: int) -> None:
    """Run jobs until standard input ends, each over a connection of its own."""
    for line in sys.stdin:
        try:
            with connect(host, port) as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.sendall(bytes(HEAD))
                if connection.recv(HEAD, socket.MSG_WAITALL) == bytes(HEAD):
                    tell(event="ready", pid=os.getpid())
                    run(json.loads(line), connection)
        except OSError as error:
            tell(event="failed", reason=f"echo: {error}")


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(int(sys.argv[2]))
    else:
        ask(sys.argv[2], int(sys.argv[3]))

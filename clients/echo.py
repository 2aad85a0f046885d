# SPDX-License-Identifier: Apache-2.0
"""The instrument's floor: a raw TCP echo between the same containers, without MQTT.

A control cycle crosses the broker twice, so it costs at least two of these echoes. Both ends wait as the control
loop and the bridge do (one thread, select), so what differs is MQTT, broker and client library.
"""

from __future__ import annotations

import argparse
import json
import select
import socket
import sys
import time

from clients.connection import sharpen_timers

_MESSAGE = b"x" * 60
"""About as long as a request with its MQTT header."""


def serve(port: int) -> None:
    """Echo to one client after another until stopped."""
    with socket.create_server(("", port)) as server:
        while True:
            client, _ = server.accept()
            with client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while select.select([client], [], [])[0] and (data := client.recv(4096)):
                    client.send(data)


def ask(host: str, port: int, count: int, interval_ms: float) -> list[int]:
    """Round trips in µs: `count` echoes, one every `interval_ms` on an open-loop schedule."""
    round_trips_us = []
    with _connect(host, port) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        due_ns = time.monotonic_ns()
        for _ in range(count):
            due_ns += round(interval_ms * 1_000_000)
            select.select([], [], [], max(0, due_ns - time.monotonic_ns()) / 1e9)
            sent_ns = time.monotonic_ns()
            sock.send(_MESSAGE)
            select.select([sock], [], [], 5.0)
            sock.recv(4096)
            round_trips_us.append((time.monotonic_ns() - sent_ns) // 1000)
    return round_trips_us


def _connect(host: str, port: int) -> socket.socket:
    give_up = time.monotonic() + 5
    while True:
        try:
            return socket.create_connection((host, port), timeout=5)
        except ConnectionRefusedError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.02)


def main() -> int:
    """`serve PORT`, or `ask HOST PORT COUNT INTERVAL_MS`, which prints the round trips (µs) as JSON."""
    parser = argparse.ArgumentParser(prog="python -m clients.echo", description=(__doc__ or "").split("\n\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    server = commands.add_parser("serve")
    server.add_argument("port", type=int)
    client = commands.add_parser("ask")
    client.add_argument("host")
    client.add_argument("port", type=int)
    client.add_argument("count", type=int)
    client.add_argument("interval_ms", type=float)
    options = parser.parse_args()
    sharpen_timers()
    if options.command == "serve":
        serve(options.port)
    else:
        print(json.dumps(ask(options.host, options.port, options.count, options.interval_ms)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""The load generator: floods a broker as mqtt-stresser does, at a fixed rate, or as fast as the broker takes it.

By hand, on the thesis' options (the default), and on two forms of ours:

    docker compose run --rm flooder -num-clients 100 -num-messages 10 -rampup-delay 1s -rampup-size 10
    docker compose run --rm flooder --rate 5000 --duration 10s
    docker compose run --rm flooder --saturate --duration 10s --qos 1

For the runner (`--jobs`) it reads one job a line from standard input, as JSON with the fields of `flood_job.FloodJob`,
and answers with JSON lines: `waiting` (at the start), `flooding` (the load is on), then `done` or `failed`, both with
the counts. A line `stop` ends the load, any other line too, and is the next job; a job that is over by itself is not
stopped by a `stop` that comes late. End of input or SIGTERM ends load and program.

Counts: offered = sent + unsent, sent = delivered + dropped. `sent` is handed to a socket; `unsent` was due, but the
client had no connection, or socket or in-flight window were full until the end; `dropped` did not come back.

One client is one connection. mqtt-stresser opens two a client, one to publish and one to subscribe.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import resource
import signal
import sys
import threading
from typing import Any

from clients import way
from clients.flood_job import Flood, FloodJob
from clients.way import Way

_UNITS_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION = re.compile(r"(\d+\.?\d*|\.\d+)(h|ms|m|s|us|µs|ns)")
_DEFAULT_DURATION_S = 10.0


def duration_s(text: str) -> float:
    """Read a duration as Go writes it, e.g. `1m30s` or `500ms`; raise ValueError."""
    if text == "0":
        return 0.0
    parts = _DURATION.findall(text)
    if not parts or "".join(map("".join, parts)) != text:
        raise ValueError(f"{text!r} is no duration such as 500ms, 20s or 1m30s")
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def print_json(**event: Any) -> None:
    """Write one JSON line to standard output, at once."""
    sys.stdout.write(json.dumps(event, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def raise_file_limit() -> None:
    """Allow as many connections as the hard limit does; the soft one is often 1024."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class JobServer:
    """Runs the jobs that come on standard input, one after the other."""

    def __init__(self, way: Way, patience_s: float) -> None:
        self._way = way
        self._patience_s = patience_s
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        """None: the end."""

    async def serve(self) -> None:
        """Run until standard input ends, or a signal."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._lines.put_nowait, None)
        threading.Thread(target=self._read, args=(loop,), daemon=True).start()
        print_json(event="waiting")
        line: bytes | None = b"stop"
        while line is not None:
            if line == b"stop":
                line = await self._lines.get()
            else:
                line = await self._run(line)

    async def _run(self, line: bytes) -> bytes | None:
        """Run one job until it or a further line ends it; returns that line."""
        try:
            job = FloodJob(**json.loads(line))
        except (TypeError, ValueError) as error:
            print_json(event="failed", reason=f"no job: {error}")
            return b"stop"
        flood = Flood(job, self._way, print_json)
        running = asyncio.create_task(flood.run(self._patience_s))
        following = asyncio.create_task(self._lines.get())
        await asyncio.wait({running, following}, return_when=asyncio.FIRST_COMPLETED)
        if following.done():
            flood.stop()
            await running
            return following.result()
        following.cancel()
        await running
        return b"stop"

    def _read(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand over lines; in a thread, for standard input may be a file, which no event loop can wait for."""
        pending = b""
        while chunk := os.read(sys.stdin.fileno(), 65536):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                loop.call_soon_threadsafe(self._lines.put_nowait, line.strip())
        loop.call_soon_threadsafe(self._lines.put_nowait, None)


def parser() -> argparse.ArgumentParser:
    """Options as of mqtt-stresser, with one dash or two, and our own."""
    described = argparse.ArgumentParser(
        prog="flooder", description=(__doc__ or "").split("\n\n")[0], allow_abbrev=False
    )
    add = described.add_argument
    way.add_arguments(described, "-broker")
    add("--patience", type=duration_s, default=30.0, metavar="TIME", help="how long to wait for the broker")
    add("--jobs", action="store_true", help="read jobs from standard input (for the runner)")
    add("-num-clients", "--num-clients", type=int, default=100, metavar="N")
    add("-num-messages", "--num-messages", type=int, metavar="N",
        help="of each client; default 10, without end for --rate and --saturate")  # fmt: skip
    add("-rampup-size", "--rampup-size", type=int, default=10, metavar="N", help="clients a step")
    add("-rampup-delay", "--rampup-delay", type=duration_s, default=1.0, metavar="TIME", help="between two steps")
    add("-timeout", "--timeout", type=duration_s, default=20.0, metavar="TIME", help="for one client's actions")
    add("-global-timeout", "--global-timeout", type=duration_s, default=180.0, metavar="TIME")
    load = described.add_mutually_exclusive_group()
    load.add_argument("--rate", type=float, metavar="MSG_PER_S", help="of all clients together, in an open loop")
    load.add_argument("--saturate", action="store_true", help="as fast as the broker takes it")
    add("--duration", type=duration_s, metavar="TIME", help="of --rate and --saturate, from when the load is on; "
        f"default {_DEFAULT_DURATION_S:g}s")  # fmt: skip
    add("--payload-bytes", type=int, default=100, metavar="N")
    add("--qos", type=int, choices=(0, 1, 2), default=0)
    add("--slow-consumers", type=int, default=0, metavar="N", help="clients that subscribe to it all and never read")
    return described


def job_of(options: argparse.Namespace) -> FloodJob:
    """Make the job that the command line asks for; raise ValueError."""
    endless = options.rate is not None or options.saturate
    return FloodJob(
        run=os.urandom(4).hex(), clients=options.num_clients,
        messages=options.num_messages or (None if endless else 10),
        rate=options.rate, saturate=options.saturate,
        rampup_delay_s=options.rampup_delay, rampup_size=options.rampup_size,
        timeout_s=options.timeout, global_timeout_s=options.global_timeout,
        payload_bytes=options.payload_bytes, qos=options.qos, slow_consumers=options.slow_consumers,
    )  # fmt: skip


async def flood_once(options: argparse.Namespace, job: FloodJob) -> dict[str, Any]:
    """Run one flood by hand; returns its last event."""
    events: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()

    def emit(**event: Any) -> None:
        events.append(event)
        if event["event"] == "flooding" and not job.published:
            loop.call_later(options.duration or _DEFAULT_DURATION_S, flood.stop)

    flood = Flood(job, Way.of(options), emit)
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, flood.stop)
    await flood.run(options.patience)
    return events[-1]


def summary(event: dict[str, Any]) -> str:
    """Print what a flood did, for a person."""

    def quantiles(name: str) -> str:
        return ", ".join(f"{key} {'–' if value is None else value}" for key, value in event[name].items())

    elapsed_s = event["elapsed_s"]
    per_message_us = 1e6 * event["cpu_s"] / event["sent"] if event["sent"] else 0.0
    cpu = f"{event['cpu_s'] / elapsed_s:.2f} of a CPU ({per_message_us:.0f} µs a message)"
    counted = f"acknowledged {event['acknowledged']}, duplicates {event['duplicates']}, foreign {event['foreign']}"
    rates = f"{event['sent'] / elapsed_s:.0f} msg/s sent, {event['delivered'] / elapsed_s:.0f} delivered"
    lines = [
        f"offered {event['offered']} = sent {event['sent']} + unsent {event['unsent']}",
        f"sent {event['sent']} = delivered {event['delivered']} + dropped {event['dropped']}  ({counted})",
        f"in {elapsed_s:.2f} s: {rates}, at {cpu}",
        f"connects {event['connects']}, failed {event['failed_connects']}, ended by the broker {event['disconnects']}",
        f"publish to deliver, µs: {quantiles('latency_us')}",
    ]
    if event["slow_consumers_cut_off"]:
        lines.append(f"slow consumers that the broker cut off: {event['slow_consumers_cut_off']}")
    if event["lateness_us"]["max"] is not None:
        lines.append(f"lateness, µs: {quantiles('lateness_us')}")
    if event["event"] == "failed":
        lines.append(f"FAILED: {event['reason']}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and run; returns the exit code."""
    described = parser()
    options = described.parse_args(arguments)
    if "://" in options.broker:
        options.broker, _, port = options.broker.partition("://")[2].rpartition(":")
        options.port = int(port)
    raise_file_limit()
    if options.jobs:
        asyncio.run(JobServer(Way.of(options), options.patience).serve())
        return 0
    try:
        job = job_of(options)
    except ValueError as error:
        described.error(str(error))
    event = asyncio.run(flood_once(options, job))
    print(summary(event))
    return 1 if event["event"] == "failed" or event["failed_connects"] else 0


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""Parts of a stand for tests: a broker, a responder in the Pi's place, a scripted board, our programs, the runner.

Every wait here is for an event and ends with PATIENCE_S; no test depends on how fast the host is.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import queue
import select
import socket
import subprocess
import sys
import termios
import threading
import time
import tty
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any, NoReturn, TypeVar

import pyarrow.parquet as pq
from paho.mqtt.client import MQTTMessage

from clients.connection import Connection, ConnectionLostError
from clients.way import Way
from clients.wire import Answer, Request, WireError, answer_topic, request_topic
from experiments import brokers, lock
from experiments.brokers import Broker
from experiments.credentials import OPEN, Protection
from experiments.variables import VARIABLES
from firmware import protocol

ROOT = Path(__file__).parents[1]
PATIENCE_S = 20.0
"""Nothing here takes that long on a busy host; whoever waits longer waits for nothing."""
LOCK_PATIENCE_S = 300.0
"""For somebody else's run, which ours must not disturb."""

T = TypeVar("T")


def eventually(look: Callable[[], T], what: str, timeout_s: float = PATIENCE_S) -> T:
    """Look until there is something to see, and give it; fail when that takes too long."""
    until_s = time.monotonic() + timeout_s
    while not (seen := look()):
        assert time.monotonic() < until_s, f"{what}: not within {timeout_s:g} s"
        time.sleep(0.01)
    return seen


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


class RunningBroker:
    """A broker process on a loopback port that stays its own from one start to the next."""

    def __init__(
        self, folder: Path, broker: Broker | None = None, *, nodelay: bool = True, protection: Protection = OPEN
    ) -> None:
        self.port = free_port()
        broker = broker or brokers.on_this_host()
        self.kind = broker.kind
        self._command = broker.host_command(self.port, nodelay=nodelay, folder=folder, protection=protection)
        self._log = folder / "broker.log"
        self.start()

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(self._command, stdout=log, stderr=log)
        eventually(self._accepts, f"a broker on port {self.port}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def _accepts(self) -> bool:
        assert self.process.poll() is None, self._log.read_text()
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False


class Client:
    """A connection, and the messages it received."""

    def __init__(self, port: int, *, nodelay: bool = True, name: str = "test") -> None:
        self.messages: list[MQTTMessage] = []
        way = Way("127.0.0.1", port, nodelay)
        self.connection = Connection(way, client_id=name, on_message=self.messages.append)
        self.connection.open(timeout_s=PATIENCE_S)

    def subscribe(self, topic: str, qos: int = 2) -> int:
        return self.connection.subscribe(topic, qos, timeout_s=PATIENCE_S)

    def receive(self, count: int) -> list[MQTTMessage]:
        """The first `count` messages, as soon as they are here."""
        until_ns = time.monotonic_ns() + int(PATIENCE_S * 1e9)
        while len(self.messages) < count:
            assert time.monotonic_ns() < until_ns, f"{len(self.messages)} of {count} messages within {PATIENCE_S:g} s"
            self.connection.wait(until_ns)
        return self.messages[:count]


Script = Callable[[Request], Iterable["Answer | bytes"]]
"""What to publish upon a request."""


class Responder:
    """Answers requests as a script tells it to, in a thread of its own; the control loop's probes always."""

    def __init__(self, port: int, script: Script) -> None:
        self.requests: list[Request] = []
        self._script = script
        self._due: list[tuple[str, bytes, int]] = []
        self._wake, self._stop = os.pipe()
        self._client = Connection(Way("127.0.0.1", port), client_id="responder", on_message=self._take)
        self._client.open(timeout_s=PATIENCE_S)
        for qos in (0, 1, 2):
            self._client.subscribe(request_topic("+", qos), qos, timeout_s=PATIENCE_S)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        os.close(self._stop)
        self._thread.join(PATIENCE_S)
        os.close(self._wake)

    def _serve(self) -> None:
        with contextlib.suppress(ConnectionLostError):
            while not self._client.wait(time.monotonic_ns() + 1_000_000_000, [self._wake]):
                while self._due:
                    self._client.publish(*self._due.pop(0))

    def _take(self, message: MQTTMessage) -> None:
        try:
            request = Request.decode(bytes(message.payload))
        except WireError:
            return
        is_probe = request.repetition == 0
        if not is_probe:
            self.requests.append(request)
        for said in [answer_to(request)] if is_probe else self._script(request):
            payload = said if isinstance(said, bytes) else said.encode()
            self._due.append((answer_topic(request.run), payload, request.qos_answer))


def answer_to(request: Request, **changes: Any) -> Answer:
    """What an ideal board answers; its R tells which cycle it belongs to."""
    fields: dict[str, Any] = {
        "run": request.run, "repetition": request.repetition, "sequence": request.sequence,
        "r_us": 1000 + request.sequence, "outcome": "ok", "board": "none", "temperature_centi": 0,
        "qos_request": 0, "repeats": 0,
    }  # fmt: skip
    return Answer(**fields | changes)


class ScriptedPort:
    """A serial port with a test in the board's place; `path` is a link, so that it can be plugged in again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plug()

    def plug(self) -> None:
        self.master, self.slave = os.openpty()
        tty.setraw(self.slave)
        fresh = self.path.with_suffix(".fresh")
        fresh.symlink_to(os.ttyname(self.slave))
        fresh.replace(self.path)

    def unplug(self) -> None:
        os.close(self.master)
        os.close(self.slave)

    def say(self, data: bytes) -> None:
        """Write to the host, and wait until it is there to be read at once."""
        already = self._readable()
        os.write(self.master, data)
        eventually(lambda: self._readable() >= already + len(data), "bytes on their way to the host")

    def hear(self) -> bytes:
        """What the host wrote, up to a newline."""
        heard = b""
        while not heard.endswith(b"\n"):
            assert select.select([self.master], [], [], PATIENCE_S)[0], f"only {heard!r} from the host"
            heard += os.read(self.master, 1)
        return heard

    def hear_id(self) -> int:
        """The id of the next request; the empty lines that the host begins with are passed over."""
        while (line := self.hear()) == b"\n":
            continue
        return int(line[1:5], 16)

    def reply(self, request_id: int, temperature_centi: int) -> None:
        """Write what the board answers. Not waited for: a bridge that listens has read it before one can look."""
        os.write(self.master, reply(request_id, temperature_centi))

    def _readable(self) -> int:
        count = array.array("i", [0])
        fcntl.ioctl(self.slave, termios.FIONREAD, count)
        return int(count[0])


def reply(request_id: int, temperature_centi: int) -> bytes:
    """What a board answers; any id and temperature."""
    text = b"=%04X%+06d" % (request_id, temperature_centi)
    return b"%s%02X\n" % (text, protocol.crc8(text))


class Program:
    """A program of ours; one of its streams, which mostly carries JSON lines, is read line by line."""

    def __init__(self, *arguments: str, events: str = "stdout") -> None:
        streams: dict[str, int] = {"stdin": subprocess.PIPE, events: subprocess.PIPE}
        self.process = subprocess.Popen([sys.executable, "-m", *arguments], cwd=ROOT, **streams)  # type: ignore[call-overload]
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, args=(getattr(self.process, events),), daemon=True).start()

    def send(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def event(self, name: str) -> dict[str, Any]:
        """The next event of this name; those before it are passed over."""
        return self.events_until(name)[-1]

    def events_until(self, name: str) -> list[dict[str, Any]]:
        """All events up to the next one of this name."""
        seen: list[dict[str, Any]] = []
        while not seen or seen[-1]["event"] != name:
            seen.append(json.loads(self.said("{")))
        return seen

    def said(self, beginning: str) -> str:
        """The next line that begins so; those before it are passed over."""
        while not (line := self._lines.get(timeout=PATIENCE_S) or self._ended(beginning)).startswith(beginning):
            continue
        return line

    def rest(self) -> list[str]:
        """What it says until it ends."""
        return list(iter(lambda: self._lines.get(timeout=PATIENCE_S), None))

    def wait(self) -> int:
        return int(self.process.wait(PATIENCE_S))

    def stop(self) -> None:
        """Let nothing outlive the test."""
        self.process.kill()
        self.process.wait()

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._lines.put(line.decode())
        self._lines.put(None)

    def _ended(self, expected: str) -> NoReturn:
        raise AssertionError(f"the program ended with {self.wait()} before it said {expected}…")


def undisturbed() -> dict[str, str]:
    """Our environment without what a `make test QOS=1` would hand to every run."""
    return {name: value for name, value in os.environ.items() if name not in {"MAKEFLAGS", *VARIABLES}}


class Runner:
    """`python -m experiments` in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._running: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        _wait_until_nobody_measures()
        process = subprocess.Popen(
            [sys.executable, "-m", "experiments", *arguments], cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env=undisturbed() | {"PYTHONPATH": str(ROOT), "TERM": "dumb"} | environment,
        )  # fmt: skip
        self._running.append(process)
        return process

    def run(self, *arguments: str, **environment: str) -> tuple[int, str]:
        """Its exit code and all it said."""
        until_s = time.monotonic() + LOCK_PATIENCE_S
        while True:
            process = self.start(*arguments, **environment)
            said, _ = process.communicate(timeout=120)
            if "another run is measuring" not in said or time.monotonic() > until_s:
                return process.returncode, said

    def launch(self, *arguments: str, **environment: str) -> subprocess.Popen[str]:
        """Start a run and come back once its bundle is there."""
        until_s = time.monotonic() + LOCK_PATIENCE_S
        while True:
            process = self.start("run", *arguments, **environment)
            while process.poll() is None:
                if self.bundle.exists():
                    return process
                time.sleep(0.01)
            said, _ = process.communicate()
            assert "another run is measuring" in said, said
            assert time.monotonic() < until_s, said

    def stop(self) -> None:
        """Let nothing outlive the test."""
        for process in self._running:
            process.kill()
            process.wait()

    @property
    def bundle(self) -> Path:
        return self.folder / "results" / "latest"

    def facts(self) -> dict[str, Any]:
        return facts_of(self.bundle)

    def samples(self) -> list[dict[str, Any]]:
        return samples_of(self.bundle)

    def resources(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = pq.read_table(self.bundle / "resources.parquet").to_pylist()
        return rows

    def wait_for_a_repetition(self, process: subprocess.Popen[str]) -> None:
        """Wait until the bundle has one: from then on the run is in the middle of its work."""

        def looked() -> bool:
            assert process.poll() is None, process.communicate()[0]
            return self.bundle.exists() and bool(self.facts()["repetitions"])

        eventually(looked, "a first repetition", 60)


def facts_of(bundle: Path) -> dict[str, Any]:
    """bundle.json, with the repetitions that a run which has not ended keeps beside it."""
    facts: dict[str, Any] = json.loads((bundle / "bundle.json").read_text())
    parts = sorted((bundle / ".parts").glob("repetition-*.json"))
    return facts | {"repetitions": facts["repetitions"] or [json.loads(part.read_text()) for part in parts]}


def samples_of(bundle: Path) -> list[dict[str, Any]]:
    """Every row of the one file, or of the parts of a run that has not ended."""
    whole = bundle / "samples.parquet"
    files = [whole] if whole.exists() else sorted((bundle / ".parts").glob("samples-*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


def children(pid: int) -> set[int]:
    """Every process that descends from this one."""
    parents = {number: int(stat[1]) for number, stat in _processes().items()}
    found = {pid}
    while more := {number for number, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def alive(pids: Iterable[int]) -> set[int]:
    """Those that still run; a zombie that nobody reaped does not."""
    stats = _processes()
    return {pid for pid in pids if pid in stats and stats[pid][0] != "Z"}


def _processes() -> dict[int, list[str]]:
    """State, parent, … of each process (proc_pid_stat(5)), by its number."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found[int(folder.name)] = (folder / "stat").read_text().rpartition(")")[2].split()
    return found


def _wait_until_nobody_measures() -> None:
    def free() -> bool:
        with contextlib.suppress(lock.BusyError), lock.alone():
            return True
        return False

    eventually(free, "the end of somebody else's run", LOCK_PATIENCE_S)


def check_bundle(bundle: Path) -> None:
    """What holds in every readable bundle: the sums, O = T − R, and each planned repetition at most once."""
    facts = facts_of(bundle)
    rows = samples_of(bundle)
    for row in rows:
        if row["status"] == "lost":
            assert row["cause"]
            assert row["o_us"] is None
        else:
            assert row["o_us"] == row["t_us"] - row["r_us"]
    cells = facts["plan"]["cells"]
    ran = [(entry["cell"], entry["repetition"]) for entry in facts["repetitions"]]
    assert len(set(ran)) == len(ran)
    for entry in facts["repetitions"]:
        names = ("scenario", "arm", "interval_ms", "qos")
        key = {name: cells[entry["cell"]][name] for name in names} | {"repetition": entry["repetition"]}
        mine = [row for row in rows if key.items() <= row.items() and not row["warmup"]]
        counts = entry["counts"]
        for status in ("ok", "late", "lost", "duplicate"):
            assert counts[status] == sum(row["status"] == status for row in mine)
        assert counts["offered"] == counts["ok"] + counts["late"] + counts["lost"]
        if entry["validity"] != "interrupted":
            # A condition may be refused before the first cycle: then nothing was offered at all.
            none = {0} if entry["validity"] == "refused" else set()
            assert counts["offered"] in {facts["plan"]["messages"], *none}
    if facts["status"] == "complete":
        looks = facts.get("looks") or []
        due = looks[-1]["repetitions"] if looks and looks[-1]["stop"] else facts["plan"]["repetitions"]
        assert {(cell, number) for cell, number in facts["plan"]["order"] if number <= due} <= set(ran)
    if (bundle / "SHA256SUMS").exists():
        subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=bundle, check=True)

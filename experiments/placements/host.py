# SPDX-License-Identifier: Apache-2.0
"""Placement `host`: the same stand as plain processes on loopback, for a machine without an engine.

Also what Docker is compared against, to see what Docker itself costs.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

from experiments import brokers
from experiments.brokers import Broker
from experiments.errors import BadInputError, StandError
from experiments.placements import Channel, Stand
from experiments.plan import Conditions

ROOT = Path(__file__).parents[2]
_BROKER_STARTS_WITHIN_S = 30.0
_CONFINED = Path(__file__).with_name("confined.py")


class _PipeChannel(Channel):
    """The pipes of a service's process."""

    def __init__(self, service: str, process: subprocess.Popen[bytes]) -> None:
        super().__init__(service)
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self.feed(iter(process.stdout.readline, b""))

    def send(self, line: bytes) -> None:
        """Write to the process's standard input."""
        self._stdin.write(line + b"\n")
        self._stdin.flush()


class HostStand(Stand):
    """The stand as child processes, which die with us whatever kills us."""

    name = "host"
    containers = False

    def __init__(self) -> None:
        super().__init__()
        self._brokers: dict[str, Broker] = {}
        """Those that conditions asked for, by kind."""
        self._folder = Path()
        self._port = 0
        self._broker_command: list[str] = []
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._conditions: Conditions | None = None

    def check(self, conditions: Conditions) -> None:
        """Only what this machine has can be had."""
        broker = brokers.parse(conditions.broker)
        if not broker.available_on_host():
            raise BadInputError("BROKER", broker.kind, broker.missing_on_host())
        self._brokers[broker.kind] = broker
        if conditions.tcp == "nagle" and broker.kind == "amqtt":
            raise BadInputError(
                "TCP", "nagle", "aMQTT always switches Nagle off; install mosquitto, or PLACEMENT=docker"
            )
        for service, asked in conditions.knobs:
            for knob in asked:
                if knob.containers_only:
                    raise BadInputError("PRIORITY", f"{service}={knob}", "needs a container; say PLACEMENT=docker")
        if conditions.contention:
            conditions.contention.host_program()
        if conditions.board.kind == "simavr":
            conditions.board.on_host(lambda command: command[0])

    def prepare(self, folder: Path, run: str) -> dict[str, Any]:  # noqa: ARG002
        """Choose a free port; there is nothing to build."""
        self._folder = folder.resolve()  # our processes run elsewhere
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self._port = probe.getsockname()[1]
        version = ", ".join(f"{kind} {broker.version_on_host()}" for kind, broker in self._brokers.items())
        return {
            "images": {"broker": {"reference": None, "id": None, "origin": "this host", "version": version}},
            "engine": None,
            "cpus": {"host": self.host_cpus, "pi": self.pi_cpus},
        }

    def up(self, conditions: Conditions) -> None:
        """Start everything anew when the conditions change."""
        if conditions == self._conditions:
            return
        self.down()
        self._conditions = conditions
        python = [sys.executable, "-m"]
        self._open("observer", [*python, "experiments.observer"])
        self.fresh_broker()
        port = conditions.board.on_host(self._start_board)
        client = ["--broker", "127.0.0.1", "--port", str(self._port), "--tcp", conditions.tcp]
        bridge = ["--board", conditions.board.kind, *(["--serial", port] if port else [])]
        self._start("pi", [*python, "rpi", *client, *bridge])
        self._open("control-loop", [*python, "clients.control_loop", "--jobs", *client])
        contention = conditions.contention
        if contention:
            start = self._open if contention.service == "flooder" else self._start
            where = client[:4] if contention.service == "flooder" else []
            start(contention.service, [*contention.host_program(), *contention.arguments(), *where])

    def capture(self) -> Channel:
        """Refuse: on loopback every frame passes twice."""
        raise BadInputError("PLACEMENT", "host", "a capture needs the broker's own network; say PLACEMENT=docker")

    def restart(self, service: str) -> None:
        """Nothing that runs as a plain process ends by itself."""
        raise NotImplementedError

    def fresh_broker(self) -> None:
        """End the broker's process and start another."""
        assert self._conditions is not None
        self._stop("broker")
        nodelay = self._conditions.tcp == "nodelay"
        broker = self._brokers[self._conditions.broker]
        self._broker_command = broker.host_command(self._port, nodelay=nodelay, folder=self._folder / "logs")
        self._await_broker(broker.kind, self._start("broker", self._broker_command))

    def _await_broker(self, kind: str, process: subprocess.Popen[bytes]) -> None:
        """Wait until the port is served; raise StandError with the broker's last words where it ends instead."""
        deadline_s = time.monotonic() + _BROKER_STARTS_WITHIN_S
        while time.monotonic() < deadline_s:
            if process.poll() is not None:
                words = (self._folder / "logs" / "broker.log").read_text(errors="replace").split("\n")
                last = next((line.strip() for line in reversed(words) if line.strip()), "it said nothing")
                raise StandError(
                    f"the broker ({kind}) ended with exit status {process.returncode}: {last}; see logs/broker.log"
                )
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return
            time.sleep(0.02)
        raise StandError(
            f"the broker ({kind}) does not serve 127.0.0.1:{self._port} after "
            f"{_BROKER_STARTS_WITHIN_S:.0f} s; see logs/broker.log"
        )

    def broker_configuration(self) -> str:
        """Give the file that the broker's kind wrote; it is the last word of its command."""
        return Path(self._broker_command[-1]).read_text()

    def pids(self) -> dict[str, int]:
        """Give our children's process ids."""
        assert self._conditions is not None
        stopped = [name for name in self._conditions.services() if self._processes[name].poll() is not None]
        if stopped:
            raise StandError(f"{stopped[0]} has stopped; see logs/{stopped[0]}.log")
        return {name: self._processes[name].pid for name in self._conditions.services()}

    def floor_us(self, interval_ms: int = 5) -> list[int]:
        """Echo over loopback between the same two sets of CPUs."""
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = str(probe.getsockname()[1])
        python = [sys.executable, "-m", "clients.echo"]
        self._start("echo", [*python, "serve", port], cpus=self.pi_cpus)
        asked = self._start("echo-client", [*python, "ask", "127.0.0.1", port, "100", str(interval_ms)], piped=True)
        said, _ = asked.communicate(timeout=30)
        self._stop("echo")
        return [int(value) for value in json.loads(said)]

    def down(self) -> None:
        """End every process we started."""
        for name in list(self._processes):
            self._stop(name)
        self._channels.clear()

    def _start_board(self, command: list[str]) -> str:
        process = self._start("board", command, piped=True)
        assert process.stdout is not None
        line = process.stdout.readline().decode().split()
        if len(line) != 2 or line[0] != "ready":
            raise StandError("the board did not start; see logs/board.log")
        return line[1]

    def _open(self, name: str, command: list[str]) -> None:
        self._channels[name] = _PipeChannel(name, self._start(name, command, piped=True))

    def _start(
        self, name: str, command: list[str], *, piped: bool = False, cpus: str | None = None
    ) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE if piped else subprocess.DEVNULL
        cpus = cpus or ",".join(map(str, self.service(name).cpus))
        with (self._folder / "logs" / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                [sys.executable, "-S", str(_CONFINED), str(os.getpid()), cpus, *command],
                cwd=ROOT, stdin=pipe, stdout=pipe if piped else log, stderr=log, start_new_session=True,
            )  # fmt: skip
        return self._processes[name]

    def _stop(self, name: str) -> None:
        process = self._processes.pop(name, None)
        if process is None:
            return
        process.terminate()
        try:
            process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        for pipe in (process.stdin, process.stdout):
            _close(pipe)


def _close(pipe: IO[bytes] | None) -> None:
    try:
        if pipe is not None:
            pipe.close()
    except OSError:
        return  # the other end is gone: nothing is left to flush

# SPDX-License-Identifier: Apache-2.0
"""Placement `host`: the same stand as plain processes on loopback, for a machine without an engine.

Also what Docker is compared against, to see what Docker itself costs.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from experiments import brokers, credentials
from experiments.brokers import Broker
from experiments.credentials import OPEN, Protection
from experiments.errors import BadInputError, StandError
from experiments.faults import Life, Place
from experiments.placements import Channel, Stand
from experiments.plan import Conditions

ROOT = Path(__file__).parents[2]
_BROKER_STARTS_WITHIN_S = 30.0
_CONFINED = Path(__file__).with_name("confined.py")
_REAPER = Path(__file__).with_name("reaper.py")


class _PipeChannel(Channel):
    """The pipes of a service's process."""

    def __init__(self, service: str, process: subprocess.Popen[bytes]) -> None:
        super().__init__(service)
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin = process.stdin
        self.feed(iter(process.stdout.readline, b""))

    def write(self, data: bytes) -> None:
        """Write to the process's standard input."""
        self._stdin.write(data)
        self._stdin.flush()


@dataclass(frozen=True)
class _Command:
    """How a service is started."""

    words: list[str]
    cpus: str
    piped: bool


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
        self._commands: dict[str, _Command] = {}
        # A child dies with the thread that started it (PR_SET_PDEATHSIG): one that lives as long as we do.
        self._starter = ThreadPoolExecutor(1, "starter")
        self._reaper: subprocess.Popen[str] | None = None
        self._issued: tempfile.TemporaryDirectory[str] | None = None
        """This run's credentials, where SECURITY asks for some."""
        self._ports: tempfile.TemporaryDirectory[str] | None = None
        self._conditions: Conditions | None = None

    def check(self, conditions: Conditions) -> None:
        """Only what this machine has can be had."""
        broker = brokers.parse(conditions.broker)
        broker.check_host(conditions.setup())
        self._brokers[broker.kind] = broker
        for service, asked in conditions.knobs:
            for knob in asked:
                if knob.containers_only:
                    raise BadInputError("PRIORITY", f"{service}={knob}", "needs a container; say PLACEMENT=docker")
        if conditions.contention:
            conditions.contention.host_program()
        if conditions.session == "persistent" and conditions.fault and conditions.fault.ends("broker"):
            why = "the broker of plain processes keeps none over its own end; say PLACEMENT=docker"
            raise BadInputError("SESSION", conditions.session, why)
        if conditions.fault:
            conditions.fault.check(Place(self.containers, conditions.board.kind))
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
        if conditions.security != "none":
            self._issued = tempfile.TemporaryDirectory(prefix=credentials.PREFIX)
            credentials.issue(Path(self._issued.name), ("127.0.0.1",))
        self.fresh_broker()
        port = conditions.board.on_host(self._start_board)
        client = ["--broker", "127.0.0.1", "--port", str(self._port), "--tcp", conditions.tcp]
        session = ["--session", conditions.session]
        if self._issued:
            client += ["--security", conditions.security, "--credentials", str(Path(self._issued.name) / "client")]
        bridge = ["--board", conditions.board.kind, *(["--serial", port] if port else [])]
        self._start("pi", [*python, "rpi", *client, *session, *bridge])
        self._open("control-loop", [*python, "clients.control_loop", "--jobs", *client, *session])
        contention = conditions.contention
        if contention:
            start = self._open if contention.service == "flooder" else self._start
            where = client if contention.service == "flooder" else []
            start(contention.service, [*contention.host_program(), *contention.arguments(), *where])

    def capture(self) -> Channel:
        """Refuse: on loopback every frame passes twice."""
        raise BadInputError("PLACEMENT", "host", "a capture needs the broker's own network; say PLACEMENT=docker")

    def restart(self, service: str) -> None:
        """Nothing that runs as a plain process ends by itself."""
        raise NotImplementedError

    def signal(self, service: str, number: int) -> None:
        """Send it to our child."""
        self._processes[service].send_signal(number)

    def life(self, service: str) -> Life:
        """Ask our child."""
        process = self._processes[service]
        status = process.poll()
        return Life(process.pid, str(process.pid), 128 - status if status is not None and status < 0 else status)

    def revive(self, service: str) -> None:
        """Run its command again; a board's new port takes the place of the old."""
        command = self._commands[service]
        for pipe in (self._processes[service].stdin, self._processes[service].stdout):
            _close(pipe)
        if service == "board":
            self._start_board(command.words)
        else:
            self._start(service, command.words, piped=command.piped, cpus=command.cpus)

    def fresh_broker(self) -> None:
        """End the broker's process and start another."""
        assert self._conditions is not None
        self._stop("broker")
        nodelay = self._conditions.tcp == "nodelay"
        broker = self._brokers[self._conditions.broker]
        protection = Protection(self._conditions.security, Path(self._issued.name)) if self._issued else OPEN
        self._broker_command = broker.host_command(
            self._port, nodelay=nodelay, folder=self._folder / "logs", protection=protection
        )
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

    def broker_file(self) -> str:
        """Return the last word of its command, see `Broker.host_command`."""
        return self._broker_command[-1]

    def broker_configuration(self) -> str:
        """Return the file that the broker's kind wrote."""
        return Path(self.broker_file()).read_text()

    def reset(self) -> None:
        """Whatever the conditions, they are not there any more."""
        self._conditions = None

    def pids(self) -> dict[str, int]:
        """Return our children's process ids."""
        assert self._conditions is not None
        stopped = [name for name in self._conditions.services() if self._processes[name].poll() is not None]
        if stopped:
            raise StandError(f"{stopped[0]} has stopped; see logs/{stopped[0]}.log")
        return {name: self._processes[name].pid for name in self._conditions.services()}

    def ailing(self) -> dict[str, str]:
        """Look at our children."""
        if self._conditions is None:
            return {}
        ills = {name: self._ill(name) for name in ["observer", *self._conditions.services()]}
        return {name: f"{name} {ill}" for name, ill in ills.items() if ill}

    def _ill(self, name: str) -> str | None:
        process = self._processes.get(name)
        if process is None or process.poll() is not None:
            return f"has stopped; see logs/{name}.log"
        try:
            state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return f"has stopped; see logs/{name}.log"
        return "is frozen" if state == "T" else None

    def log(self, service: str) -> bytes:
        """Read its file, which all its lives share."""
        return (self._folder / "logs" / f"{service}.log").read_bytes()

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
        if self._reaper is not None:
            _close(self._reaper.stdin)
            self._reaper.wait()
            self._reaper = None
        self._channels.clear()
        if self._issued is not None:
            self._issued.cleanup()
            self._issued = None
        if self._ports is not None:
            self._ports.cleanup()
            self._ports = None

    def _start_board(self, command: list[str]) -> str:
        process = self._start("board", command, piped=True)
        assert process.stdout is not None
        line = process.stdout.readline().decode().split()
        if len(line) != 2 or line[0] != "ready":
            raise StandError("the board did not start; see logs/board.log")
        # A link, because a board that is started anew has another port, and the Pi looks where it looked before.
        self._ports = self._ports or tempfile.TemporaryDirectory(prefix="testbed-port-")
        port, fresh = Path(self._ports.name, "board"), Path(self._ports.name, "fresh")
        fresh.symlink_to(line[1])
        fresh.replace(port)
        return str(port)

    def _open(self, name: str, command: list[str]) -> None:
        self._channels[name] = _PipeChannel(name, self._start(name, command, piped=True))

    def _start(
        self, name: str, command: list[str], *, piped: bool = False, cpus: str | None = None
    ) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE if piped else subprocess.DEVNULL
        cpus = cpus or ",".join(map(str, self.service(name).cpus))
        self._commands[name] = _Command(command, cpus, piped)

        def start() -> subprocess.Popen[bytes]:
            with (self._folder / "logs" / f"{name}.log").open("ab") as log:
                return subprocess.Popen(
                    [sys.executable, "-S", str(_CONFINED), str(os.getpid()), cpus, *command],
                    cwd=ROOT, stdin=pipe, stdout=pipe if piped else log, stderr=log, start_new_session=True,
                )  # fmt: skip

        self._processes[name] = process = self._starter.submit(start).result()
        self._tell_reaper(f"+{process.pid}")
        return process

    def _tell_reaper(self, line: str) -> None:
        """It outlives us, and ends what our services forked if nobody else does."""
        if self._reaper is None:
            self._reaper = subprocess.Popen(
                [sys.executable, "-S", str(_REAPER)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                start_new_session=True, text=True, bufsize=1,
            )  # fmt: skip
        assert self._reaper.stdin is not None
        with contextlib.suppress(OSError):  # somebody ended it: then nobody watches over us
            self._reaper.stdin.write(f"{line}\n")

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
        with contextlib.suppress(ProcessLookupError):  # its own children, e.g. a stressor's workers
            os.killpg(process.pid, signal.SIGKILL)
        self._tell_reaper(f"-{process.pid}")
        for pipe in (process.stdin, process.stdout):
            _close(pipe)


def _close(pipe: IO[Any] | None) -> None:
    try:
        if pipe is not None:
            pipe.close()
    except OSError:
        return  # the other end is gone: nothing is left to flush

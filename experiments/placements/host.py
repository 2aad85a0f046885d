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
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from experiments.cells import Conditions
from experiments.errors import BadInputError, StandError
from experiments.faults import Life
from experiments.placements import Channel, Stand
from experiments.roles import OBSERVER

ROOT = Path(__file__).parents[2]
PYTHON = [sys.executable, "-m"]
"""What runs a module of ours."""
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
class Command:
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
        self._folder = Path()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._commands: dict[str, Command] = {}
        # A child dies with the thread that started it (PR_SET_PDEATHSIG): one that lives as long as we do.
        self._starter = ThreadPoolExecutor(1, "starter")
        self._reaper: subprocess.Popen[str] | None = None

    def check(self, conditions: Conditions) -> None:
        """Only what this machine has can be had."""
        for service, knob in conditions.each_knob():
            if knob.containers_only:
                raise BadInputError("PRIORITY", f"{service}={knob}", "needs a container; say PLACEMENT=docker")
        if conditions.contention:
            conditions.contention.host_program()
        if conditions.fault:
            conditions.fault.check(conditions.place(containers=False))

    def prepare(self, folder: Path, run: str) -> dict[str, Any]:  # noqa: ARG002
        """There is nothing to build."""
        self._folder = folder.resolve()  # our processes run elsewhere
        return {"images": {}, "engine": None, "cpus": {"host": self.host_cpus, "pi": self.pi_cpus}}

    def up(self, conditions: Conditions) -> None:
        """Start everything anew when the conditions change."""
        if conditions == self.conditions:
            return
        self.down()
        self.conditions = conditions
        self._open(OBSERVER.name, [*PYTHON, "experiments.observer"])
        self.begin(conditions)
        if contention := conditions.contention:
            start = self._open if contention.role.takes_jobs else self._start
            words = [*contention.host_program(), *contention.arguments(), *self.words_for(conditions)]
            start(contention.service, words)

    def begin(self, conditions: Conditions) -> None:
        """Start the services of the family."""
        raise NotImplementedError

    def words_for(self, conditions: Conditions) -> list[str]:  # noqa: ARG002
        """Return what a contention's command line gets at its end: where that which it acts through is."""
        return []

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
        """Run its command again."""
        command = self._commands[service]
        for pipe in (self._processes[service].stdin, self._processes[service].stdout):
            _close(pipe)
        self.begin_again(service, command)

    def begin_again(self, service: str, command: Command) -> None:
        """Start a service that ended, by the command it had."""
        self._start(service, command.words, piped=command.piped, cpus=command.cpus)

    def reset(self) -> None:
        """Whatever the conditions, they are not there any more."""
        self.conditions = None

    def pids(self) -> dict[str, int]:
        """Return our children's process ids."""
        assert self.conditions is not None
        stopped = [name for name in self.conditions.services() if self._processes[name].poll() is not None]
        if stopped:
            raise StandError(f"{stopped[0]} has stopped; see logs/{stopped[0]}.log")
        return {name: self._processes[name].pid for name in self.conditions.services()}

    def ailing(self) -> dict[str, str]:
        """Look at our children."""
        if self.conditions is None:
            return {}
        ills = {name: self._ill(name) for name in [OBSERVER.name, *self.conditions.services()]}
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
        client = self._start("echo-client", [*python, "ask", "127.0.0.1", port, "100", str(interval_ms)], piped=True)
        said, _ = client.communicate(timeout=30)
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

    def _open(self, name: str, command: list[str]) -> None:
        self._channels[name] = _PipeChannel(name, self._start(name, command, piped=True))

    def _start(
        self, name: str, command: list[str], *, piped: bool = False, cpus: str | None = None
    ) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE if piped else subprocess.DEVNULL
        cpus = cpus or ",".join(map(str, self.service(name).cpus))
        self._commands[name] = Command(command, cpus, piped)

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

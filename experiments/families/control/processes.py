# SPDX-License-Identifier: Apache-2.0
"""The control loop's stand as plain processes on loopback."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments import brokers, credentials
from experiments.brokers import Broker
from experiments.cells import Conditions
from experiments.credentials import OPEN, Protection
from experiments.errors import BadInputError, StandError
from experiments.families.control.conditions import ControlConditions
from experiments.families.control.roles import BOARD, BROKER, DRIVER, PI
from experiments.families.control.stand import ControlStand
from experiments.placements import Configuration
from experiments.placements.host import PYTHON, Command, HostStand

_BROKER_STARTS_WITHIN_S = 120.0
"""One in Python begins slowly beside CPU stress, the more so in an emulated machine; one that ends is seen at once."""


class ControlAsProcesses(ControlStand, HostStand):
    """Broker, control loop, Pi and board, each a child of ours."""

    def __init__(self, pinned: Mapping[str, str] | None = None) -> None:
        """Plain processes have no image that could be pinned."""
        del pinned
        super().__init__()
        self._brokers: dict[str, Broker] = {}
        """Those that conditions asked for, by kind."""
        self._port = 0
        self._broker_command: list[str] = []
        self._issued: tempfile.TemporaryDirectory[str] | None = None
        """This run's credentials, where SECURITY asks for some."""
        self._ports: tempfile.TemporaryDirectory[str] | None = None

    def check(self, conditions: Conditions) -> None:
        """Only what this machine has can be had."""
        assert isinstance(conditions, ControlConditions)
        broker = brokers.parse(conditions.broker)
        broker.check_host(conditions.setup())
        self._brokers[broker.kind] = broker
        if conditions.session == "persistent" and conditions.fault and conditions.fault.ends(BROKER.name):
            why = "the broker of plain processes keeps none over its own end; say PLACEMENT=docker"
            raise BadInputError("SESSION", conditions.session, why)
        super().check(conditions)
        if conditions.board.kind == "simavr":
            conditions.board.on_host(lambda command: command[0])

    def prepare(self, folder: Path, run: str) -> dict[str, Any]:
        """Choose a free port."""
        facts = super().prepare(folder, run)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self._port = probe.getsockname()[1]
        version = ", ".join(f"{kind} {broker.version_on_host()}" for kind, broker in self._brokers.items())
        images = {BROKER.name: {"reference": None, "id": None, "origin": "this host", "version": version}}
        return facts | {"images": images}

    def begin(self, conditions: Conditions) -> None:
        """Start the broker first, then who connects to it."""
        assert isinstance(conditions, ControlConditions)
        if conditions.security != "none":
            self._issued = tempfile.TemporaryDirectory(prefix=credentials.PREFIX)
            credentials.issue(Path(self._issued.name), ("127.0.0.1",))
        self.refresh()
        port = conditions.board.on_host(self._start_board)
        session = ["--session", conditions.session]
        bridge = ["--board", conditions.board.kind, *(["--serial", port] if port else [])]
        self._start(PI.name, [*PYTHON, "rpi", *self._way(), *session, *bridge])
        self._open(DRIVER.name, [*PYTHON, "clients.control_loop", "--jobs", *self._way(), *session])

    def words_for(self, conditions: Conditions) -> list[str]:
        """Return the way to the broker, for who acts through it."""
        contention = conditions.contention
        return self._way() if contention and contention.through == BROKER.name else []

    def _way(self) -> list[str]:
        """Return the options that lead a client to the broker."""
        way = ["--broker", "127.0.0.1", "--port", str(self._port), "--tcp", self.now.tcp]
        if self._issued:
            way += ["--security", self.now.security, "--credentials", str(Path(self._issued.name) / "client")]
        return way

    def refresh(self) -> None:
        """End the broker's process and start another."""
        self._stop(BROKER.name)
        protection = Protection(self.now.security, Path(self._issued.name)) if self._issued else OPEN
        self._broker_command = self.broker.host_command(
            self._port, nodelay=self.now.tcp == "nodelay", folder=self._folder / "logs", protection=protection
        )
        self._await_broker(self._start(BROKER.name, self._broker_command))

    def _await_broker(self, process: subprocess.Popen[bytes]) -> None:
        """Wait until the port is served; raise StandError with the broker's last words where it ends instead."""
        kind = self.now.broker
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

    def configurations(self) -> dict[str, Configuration]:
        """The broker's: what was written for it, at the path that its command ends in, see `Broker.host_command`."""
        file = self.broker.host_file(self._folder / "logs")
        return {BROKER.name: Configuration(self._broker_command[-1], file.read_text())}

    def begin_again(self, service: str, command: Command) -> None:
        """A board's new port takes the place of the old."""
        if service == BOARD.name:
            self._start_board(command.words)
        else:
            super().begin_again(service, command)

    def _start_board(self, command: list[str]) -> str:
        process = self._start(BOARD.name, command, piped=True)
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

    def down(self) -> None:
        """Take the run's credentials away as well."""
        super().down()
        for folder in (self._issued, self._ports):
            if folder is not None:
                folder.cleanup()
        self._issued = self._ports = None

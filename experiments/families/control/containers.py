# SPDX-License-Identifier: Apache-2.0
"""The control loop's stand in containers: docker-compose.yml, and what conditions change of it."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import docker.errors

from experiments import brokers, credentials, engine, images, knobs
from experiments.brokers import Broker
from experiments.cells import Conditions
from experiments.errors import BadInputError, StandError
from experiments.families.control.conditions import ControlConditions
from experiments.families.control.roles import BOARD, BROKER, CAPTURE, DRIVER, PI
from experiments.families.control.stand import ControlStand
from experiments.images import Images
from experiments.observer import disk
from experiments.placements import Channel, Configuration, vault
from experiments.placements.docker import LABEL, DockerStand
from experiments.roles import OBSERVER

_ECHO_PORT = 7007


class ControlInContainers(ControlStand, DockerStand):
    """Broker, control loop, Pi and board, each in a container."""

    def __init__(self, pinned: Mapping[str, str] | None = None) -> None:
        """Use these images, by service and id, instead of our current ones."""
        super().__init__(pinned or {})
        self._brokers: dict[str, Broker] = {}
        """Those that conditions asked for, by kind."""
        self._obtained: Images | None = None
        self._unbuildable: dict[str, str] = {}
        """Why there is no image of some."""
        self._vault_filled = False

    def check(self, conditions: Conditions) -> None:
        """Whatever Compose and our images offer can be had; a public image must be here or pullable."""
        assert isinstance(conditions, ControlConditions)
        if conditions.board.kind == "usb" and engine.is_far():
            raise BadInputError(
                "DEVICE",
                str(conditions.board),
                "the engine is on another machine, this port on ours; run there, or simavr",
            )
        broker = brokers.parse(conditions.broker)
        broker.check_container(conditions.setup())
        self._brokers[broker.kind] = broker
        super().check(conditions)
        image = conditions.contention.image if conditions.contention else None
        if image and conditions.security != "none":
            raise BadInputError(
                "SECURITY", conditions.security, f"{image} connects as anybody may; FLOOD=published can"
            )

    def obtain(self, conditions: Conditions) -> None:
        """Build the brokers' images, unless there is but the usual one, which is the stand's own."""
        assert isinstance(conditions, ControlConditions)
        if self._obtained is None and any(one.image_of != BROKER.name for one in self._brokers.values()):
            self._obtained, self._unbuildable = images.ensure_able(self._engine, self._brokers.values())
            self._brokers = {kind: one for kind, one in self._brokers.items() if kind not in self._unbuildable}
        if why := self._unbuildable.get(conditions.broker):
            others = f"its image cannot be built here: {why}; name another, e.g. BROKER=mosquitto"
            raise BadInputError("BROKER", conditions.broker, others)

    def build(self) -> Images:
        """The images of the brokers that were asked for, too; a pinned one gets the present configurations."""
        built = self._obtained or images.ensure(self._engine, self._brokers.values())
        if BROKER.name in self._pinned:
            self._pinned[BROKER.name] = images.with_configurations(self._engine, self._pinned[BROKER.name])
        return built

    def environment(self, conditions: Conditions) -> dict[str, str]:
        """Return the variables of docker-compose.yml; issue credentials once, where SECURITY asks for some."""
        assert isinstance(conditions, ControlConditions)
        if conditions.security != "none" and not self._vault_filled:
            self._issue_credentials()
        return {
            "TCP": conditions.tcp, "BOARD": conditions.board.kind, "SESSION": conditions.session,
            "SECURITY": conditions.security,
        }  # fmt: skip

    def _issue_credentials(self) -> None:
        with tempfile.TemporaryDirectory(prefix=credentials.PREFIX) as scratch:
            issued = credentials.issue(Path(scratch), (BROKER.name,))
            (issued / vault.CONFIGURATION).mkdir()
            for broker in self._brokers.values():
                for name, text in broker.secured().items():
                    (issued / vault.CONFIGURATION / name).write_text(text)
            vault.fill(self._engine, self._project, {LABEL: self._run}, "testbed/client", issued)
        self._vault_filled = True

    def wishes(self, conditions: Conditions) -> list[tuple[str, dict[str, Any]]]:
        """Return what broker, board and contention wish, and what the runner starts otherwise than one by hand."""
        assert isinstance(conditions, ControlConditions)
        broker = brokers.parse(conditions.broker)
        # A health check is a process beside what is measured: good for whoever waits by hand, noise here.
        wishes: list[tuple[str, dict[str, Any]]]
        wishes = [(role.name, {"healthcheck": {"disable": True}}) for role in (BROKER, PI, BOARD)]
        wishes += [(DRIVER.name, {"command": ["--jobs"], "logging": {"driver": "none"}})]
        wishes += [(BROKER.name, broker.compose(conditions.setup())), *conditions.board.compose().items()]
        if broker.image_of in self._pinned:
            wishes += [(BROKER.name, {"image": self._pinned[broker.image_of]})]
        contention = conditions.contention
        if conditions.security != "none" and contention and contention.through == BROKER.name:
            wishes += [(contention.service, knobs.one(conditions.security).compose())]
        return wishes

    def mount(self, services: dict[str, Any], conditions: Conditions) -> dict[str, Any]:
        """Give the broker a disk in memory where it must store: a real one's latency is not what is measured."""
        assert isinstance(conditions, ControlConditions)
        if not conditions.setup().stores:
            return {}
        store, broker = brokers.parse(conditions.broker).store, services[BROKER.name]
        mount = {"type": "volume", "source": "store", "volume": {"nocopy": True}}
        broker["volumes"] = [*broker.get("volumes", ()), mount | {"target": store}]
        services[OBSERVER.name] |= {"volumes": [mount | {"target": str(disk.STORE)}]}  # it keeps it over a kill
        options = {"type": "tmpfs", "device": "tmpfs", "o": "size=4m,mode=0777"}
        return {"store": {"labels": {LABEL: self._environment["TESTBED_RUN"]}, "driver_opts": options}}

    def refresh(self) -> None:
        """Restart the broker's container: it persists nothing, so the new process knows nothing of the old."""
        broker = self._container(BROKER.name)
        # It has no state to save and paho sees the reset at once: no reason to wait for a graceful end.
        with contextlib.suppress(docker.errors.APIError):  # it is dead already: the repetition before lost it
            broker.kill("KILL")
        if self.conditions is not None and self.now.setup().stores:
            self.disk("wipe")
        broker.start()

    def configurations(self) -> dict[str, Configuration]:
        """The broker's, as the file that its command names."""
        setup = self.now.setup()
        return {BROKER.name: Configuration(self.broker.file(setup), self.broker.configuration(setup))}

    def capture(self) -> Channel:
        """Start a capture in the present broker's network namespace."""
        name = CAPTURE.name
        self._compose("up", "--detach", "--no-build", "--pull", "never", "--no-deps", "--force-recreate", name)
        container = self._container(name)
        while b"capturing" not in container.logs():
            if container.status == "exited":
                raise StandError(f"the capture did not start; see logs/{name}.log")
            time.sleep(0.02)
            container.reload()
        return self._channel(name, container)

    def floor_us(self, interval_ms: int = 5) -> list[int]:
        """Echo between the very containers that the cycles will run in."""
        self._container(PI.name).exec_run(["python3", "-m", "clients.echo", "serve", str(_ECHO_PORT)], detach=True)
        code, output = self._container(DRIVER.name).exec_run(
            ["python3", "-m", "clients.echo", "ask", PI.name, str(_ECHO_PORT), "100", str(interval_ms)]
        )
        said = output if isinstance(output, bytes) else b"".join(output)
        if code:
            raise StandError(
                f"the TCP echo between control loop and Pi failed: {said.decode(errors='replace').strip()}"
            )
        return [int(value) for value in json.loads(said)]

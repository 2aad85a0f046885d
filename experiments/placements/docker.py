# SPDX-License-Identifier: Apache-2.0
"""Placement `docker`: Compose brings the stand up, the engine's API does what must be quick."""

from __future__ import annotations

import contextlib
import functools
import json
import re
import secrets
import select
import struct
import subprocess
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import docker.errors
import docker.types
from docker.models.containers import Container

from experiments import engine, host, images, published, tidy
from experiments.cells import Conditions
from experiments.cpus import cpu_sets
from experiments.errors import BadInputError, StandError
from experiments.faults import Life
from experiments.placements import REAL_TIME, Channel, Stand
from experiments.roles import OBSERVER

ROOT = Path(__file__).parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yml"
LABEL = "testbed.run"
LEAST: dict[str, Any] = {
    "read_only": True, "cap_drop": ["ALL"], "security_opt": ["no-new-privileges:true"], "pids_limit": 64,
    "mem_limit": "128m", "networks": ["stand"], "stop_grace_period": "2s", "labels": {LABEL: "${TESTBED_RUN}"},
}  # fmt: skip
"""What a service gets that the Compose file does not have: no more than those that it has."""
_FRAME = struct.Struct(">BxxxL")
"""Before each piece of a container's output: which stream, and how long."""


@dataclass(frozen=True)
class Powers:
    """What the observer may do beyond reading: set scheduling and CPUs (SYS_NICE), write control groups."""

    sets: bool = False
    writes_groups: bool = False

    @classmethod
    def needed(cls, conditions: Conditions) -> Powers:
        """What the knobs of these conditions take."""
        settings = {name for _, knob in conditions.each_knob() for name, _ in knob.settings()}
        return cls(bool(settings), not settings.isdisjoint(REAL_TIME))

    def __or__(self, other: Powers) -> Powers:
        return Powers(self.sets or other.sets, self.writes_groups or other.writes_groups)

    def capabilities(self) -> list[str]:
        """What it gets beside SYS_PTRACE."""
        return ["SYS_NICE"] if self.sets else []

    def environment(self) -> dict[str, str]:
        """What the Compose file asks for."""
        return {"OBSERVER_CGROUPS": "rw" if self.writes_groups else "ro"}


class _AttachedChannel(Channel):
    """The attached standard streams of a service's container."""

    def __init__(self, service: str, container: Container, log: Path) -> None:
        super().__init__(service)
        stream: Any = container.attach_socket(params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        self._socket = getattr(stream, "_sock", stream)
        self._socket.settimeout(None)
        self._response = getattr(stream, "_response", None)
        self._log = log
        self._using = threading.Lock()
        self.feed(self._lines())

    def close(self) -> None:
        """Close the response before its socket: Python 3.13 complains at exit of one that is finalised after it."""
        if self._response is not None:
            self._response.close()

    def write(self, data: bytes) -> None:
        """Write to the container's standard input."""
        with self._using:
            self._socket.sendall(data)

    def _lines(self) -> Iterator[bytes]:
        pending = b""
        with self._log.open("ab", buffering=0) as log:
            for kind, data in self._frames():
                if kind == 2:  # standard error
                    with contextlib.suppress(OSError):  # a full disk must not cost the service's events as well
                        log.write(data)
                    continue
                *lines, pending = (pending + data).split(b"\n")
                yield from lines

    def _frames(self) -> Iterator[tuple[int, bytes]]:
        """(stream, data) as the engine parts them; the SDK's own reader waits for ever for what TLS has decrypted."""
        while len(head := self._receive(_FRAME.size)) == _FRAME.size:
            kind, length = _FRAME.unpack(head)
            yield kind, self._receive(length)

    def _receive(self, length: int) -> bytes:
        """Return so many bytes, fewer at the end. Two threads may not use one TLS connection at the same time."""
        data = b""
        while len(data) < length:
            if not (hasattr(self._socket, "pending") and self._socket.pending()):
                select.select([self._socket], [], [])
            with self._using:
                part: bytes = self._socket.recv(length - len(data))
            if not part:
                break
            data += part
        return data


class DockerStand(Stand):
    """The stand as one Compose project, named after the run."""

    name = "docker"
    containers = True

    def __init__(self, pinned: Mapping[str, str]) -> None:
        """Use these images, by service and id, instead of our current ones."""
        super().__init__()
        self._engine = engine.connect()
        self._pinned = dict(pinned)
        self._folder = Path()
        self._extra = "{}"
        self._project = ""
        self._environment: dict[str, str] = {}
        self._kept = True
        self._attached: dict[str, str] = {}
        self._streams: list[_AttachedChannel] = []
        self._services: set[str] = set()
        """Those of the Compose file, once it was asked."""
        self._run = ""
        self._limits_memory = True
        self._memory_limits: dict[str, int] = {}
        self._powers = Powers()
        """The observer's: of all conditions that were asked for, lest one that is made anew forgets what it raised."""

    def check(self, conditions: Conditions) -> None:
        """Whatever Compose and our images offer can be had; a public image must be here or pullable."""
        self._powers |= Powers.needed(conditions)
        image = conditions.contention.image if conditions.contention else None
        if image and not published.obtain(self._engine, image):
            raise BadInputError("FLOOD", str(conditions.contention), f"no registry gives {image}; say FLOOD=published")
        if conditions.fault:
            if engine.is_far():
                why = "its time is read on this machine's clock, the cycles' on the engine's; run it there"
                raise BadInputError("FAULT", str(conditions.fault), why)
            conditions.fault.check(conditions.place(containers=True))

    def prepare(self, folder: Path, run: str) -> dict[str, Any]:
        """Pull or build the images; ask the engine what it is."""
        self._folder, self._run, self._project = folder, run, f"testbed-{run}"
        used = self.build().replaced(self._pinned)
        version, info = self._engine.version(), self._engine.info()
        self._environment = used.environment | {"TESTBED_PROJECT": self._project, "TESTBED_RUN": run}
        far = self._examine(info) if engine.is_far() else {}
        self._environment |= {"HOST_CPUS": self.host_cpus, "PI_CPUS": self.pi_cpus}
        self._limits_memory = bool(info.get("MemoryLimit", True))
        if not self._limits_memory:
            print("testbed: this engine's kernel ignores memory limits: boot with cgroup_enable=memory", flush=True)
        return far | {
            "images": used.record(self._engine),
            "base_image": used.record_base(self._engine),
            "engine": {
                "version": version["Version"],
                "api": version["ApiVersion"],
                "compose": engine.compose_version(),
                "storage": info["Driver"],
                "cgroup_driver": info.get("CgroupDriver"),
                "os": info["OperatingSystem"],
                "reached_by": engine.endpoint().transport,
                "memory_limits": self._limits_memory,
            },
            "cpus": {"host": self.host_cpus, "pi": self.pi_cpus},
        }

    def build(self) -> images.Images:
        """Pull or build the images of the stand; raise StandError."""
        return images.ensure(self._engine)

    def _examine(self, info: dict[str, Any]) -> dict[str, Any]:
        """Describe the engine's machine, which is not ours, and part its CPUs; returns `host` of bundle.json."""
        machine = ask_observer(self._environment, self._project, do="examine")["facts"]
        self.host_cpus, self.pi_cpus = cpu_sets(machine["cpu_list"])
        return {"host": host.described(machine | {"os": info["OperatingSystem"]}, info["Name"])}

    def up(self, conditions: Conditions) -> None:
        """Let Compose create or recreate what these conditions change, and remove what they do not have."""
        if conditions == self.conditions:
            return
        self._powers |= Powers.needed(conditions)
        self._extra = json.dumps(self._override(conditions))
        self._environment |= self.environment(conditions) | self._powers.environment()
        self.as_run = relocated(self._compose("config"))
        if not (first := self._folder / "compose.yml").exists():  # what a stand that never comes up was to be
            first.write_text(self.as_run)
        entries = json.loads(self._compose("config", "--format", "json"))["services"]
        self._memory_limits = {name: int(service["mem_limit"]) for name, service in entries.items()}
        helper = conditions.fault.helper if conditions.fault else None
        services = [OBSERVER.name, *conditions.services(), *([helper] if helper else [])]
        # What was set on a running process, and its group's real-time budget, is undone only by a new container.
        kept = set(services) - self._touched if self._kept else set()
        self._touched.clear()
        for container in self._containers():
            if container.labels["com.docker.compose.service"] not in kept:
                container.remove(force=True, v=True)
        self._put_budgets_back()  # as long as this observer knows of them: it may be made anew as well
        self._compose("up", "--detach", "--no-build", "--pull", "never", *services)
        self.conditions, self._kept = conditions, True
        self._attach()

    def reset(self) -> None:
        """Keep what the containers said, and none of them."""
        self.conditions, self._kept = None, False
        tidy.each([("logs", self._save_logs), ("real-time budgets", self._release)])

    def environment(self, conditions: Conditions) -> dict[str, str]:  # noqa: ARG002
        """Return the variables of the Compose file for these conditions, and get ready what they name."""
        return {}

    def restart(self, service: str) -> None:
        """Restart its container."""
        self._container(service).restart(timeout=0)

    def signal(self, service: str, number: int) -> None:
        """Have the engine send it to the container's first process."""
        self._container(service).kill(number)

    def life(self, service: str) -> Life:
        """Ask the engine."""
        state = self._container(service).attrs["State"]
        return Life(int(state["Pid"]), state["StartedAt"], None if state["Running"] else int(state["ExitCode"]))

    def revive(self, service: str) -> None:
        """Start its container again."""
        self._container(service).start()

    def memory_limit_bytes(self, service: str) -> int | None:
        """Return what Compose was told, unless the engine's kernel knows no such limit."""
        return self._memory_limits[service] if self._limits_memory else None

    def pids(self) -> dict[str, int]:
        """Ask the engine: process ids as the host sees them."""
        assert self.conditions is not None
        pids = {name: int(self._container(name).attrs["State"]["Pid"]) for name in self.conditions.services()}
        stopped = [name for name, pid in pids.items() if pid == 0]
        if stopped:
            raise StandError(f"{stopped[0]} has stopped; see logs/{stopped[0]}.log")
        return pids

    def ailing(self) -> dict[str, str]:
        """Ask the engine."""
        if self.conditions is None:
            return {}
        states = {each.labels["com.docker.compose.service"]: each.status for each in self._containers()}
        states = {name: states.get(name, "gone") for name in [OBSERVER.name, *self.conditions.services()]}
        return {
            name: f"{name} is frozen" if status == "paused" else f"{name} has stopped; see logs/{name}.log"
            for name, status in states.items()
            if status != "running"
        }

    def gone(self) -> str | None:
        """Ask the engine whether it is there."""
        try:
            self._engine.ping()
        except (OSError, docker.errors.APIError):
            return engine.GONE
        return None

    def log(self, service: str) -> bytes:
        """Ask the engine for what its container said."""
        return self._container(service).logs()

    def down(self) -> None:
        """Keep the logs, then remove containers, network and volume; real-time budgets are put back in between.

        Raises StandError with what could not be done; nothing of it keeps the rest from being done.
        """
        if not self._project:
            return
        if gone := self.gone():
            raise StandError(gone)
        failed = tidy.each([
            ("logs", self._save_logs),
            ("real-time budgets", self._release),
            ("the stand", lambda: remove(self._engine, self._project)),
            *(("stream", stream.close) for stream in self._streams),
        ])  # fmt: skip
        if failed:
            raise StandError("; ".join(failed))

    def _release(self) -> None:
        """Put the budgets back: the group above all containers cannot give up what one below it still holds."""
        if "observer" not in self._channels:
            return
        others = [each for each in self._containers() if each.labels["com.docker.compose.service"] != "observer"]
        tidy.each([("container", functools.partial(container.remove, force=True, v=True)) for container in others])
        self._put_budgets_back()

    def _put_budgets_back(self) -> None:
        if observer := self._channels.get("observer"):
            with contextlib.suppress(StandError, OSError):
                observer.ask(do="release")

    def _attach(self) -> None:
        for container in self._containers():
            service = container.labels["com.docker.compose.service"]
            role = self.role(service)
            if role.takes_jobs and role.lasting and self._attached.get(service) != container.id:
                self._attached[service] = str(container.id)
                self._channels[service] = self._channel(service, container)

    def _channel(self, service: str, container: Container) -> Channel:
        self._streams.append(_AttachedChannel(service, container, self._folder / "logs" / f"{service}.log"))
        return self._streams[-1]

    def _override(self, conditions: Conditions) -> dict[str, Any]:
        """Return what the Compose file gets on top: what the family and the knobs wish, and what the runner starts."""
        services: dict[str, Any] = {}
        if conditions.contention:
            image = {"image": conditions.contention.image} if conditions.contention.image else {}
            command = {"command": conditions.contention.arguments()}
            services[conditions.contention.service] = command | image | conditions.contention.compose()
        services[OBSERVER.name] = {"logging": {"driver": "none"}, "cap_add": self._powers.capabilities()}
        # Of a contention that was taken away, for the floor, knobs may be left.
        running = conditions.services()
        wishes = [(service, knob.compose()) for service, knob in conditions.each_knob() if service in running]
        for service, extra in [*self.wishes(conditions), *wishes]:
            services[service] = services.get(service, {}) | extra
        for service in set(services) - self._declared():
            services[service] = LEAST | {"cpuset": self._cpuset(service)} | services[service]
        for service, image_id in self._pinned.items():
            if service in services or service in conditions.services():
                services[service] = {"image": image_id} | services.get(service, {})
        if any("ulimits" in extra for extra in services.values()) and not may_raise_rtprio(self._engine, self._project):
            for extra in services.values():
                extra.pop("ulimits", None)
        volumes = self.mount(services, conditions)
        return {"services": services} | ({"volumes": volumes} if volumes else {})

    def _declared(self) -> set[str]:
        """The services that the Compose file has by itself."""
        if not self._services:
            self._services = set(self._compose("config", "--services").split())
        return self._services

    def _cpuset(self, service: str) -> str:
        return ",".join(map(str, self.service(service).cpus))

    def wishes(self, conditions: Conditions) -> list[tuple[str, dict[str, Any]]]:  # noqa: ARG002
        """Return what services get on top for these conditions: pairs of a service and its entry, later ones win."""
        return []

    def mount(self, services: dict[str, Any], conditions: Conditions) -> dict[str, Any]:  # noqa: ARG002
        """Add to the services' volumes what these conditions need; returns the volumes beside the Compose file's."""
        return {}

    def _containers(self) -> list[Container]:
        return self._engine.containers.list(all=True, filters=_of_project(self._project), ignore_removed=True)

    def _container(self, service: str) -> Container:
        try:
            return self._engine.containers.get(f"{self._project}-{service}-1")
        except docker.errors.NotFound:
            raise StandError(f"the container of {service} is gone") from None

    def _compose(self, *arguments: str) -> str:
        command = ["docker", "compose", "--file", str(COMPOSE_FILE), "--file", "-"]
        # A session of its own: Ctrl-C is for us, and we take the stand down in order.
        done = subprocess.run(
            [*command, "--profile", "*", *arguments],
            input=self._extra, env=self._environment, capture_output=True, text=True, check=False,
            start_new_session=True,
        )  # fmt: skip
        if done.returncode:
            raise StandError(f"docker compose {arguments[0]} failed: {_last_line(done.stderr)}")
        return done.stdout

    def _save_logs(self) -> None:
        """Keep what each service said, as far as it can be had: a full disk is no reason to keep containers."""
        services = {container.labels["com.docker.compose.service"]: container for container in self._containers()}
        tidy.each([
            (service, functools.partial(_save_log, container, self._folder / "logs" / f"{service}.log"))
            for service, container in services.items()
            if not self.role(service).takes_jobs  # their standard error is kept as it comes
        ])  # fmt: skip


def _save_log(container: Container, path: Path) -> None:
    with path.open("ab") as log:  # containers before it may have said something, too
        log.write(container.logs())


def require() -> None:
    """Raise BadInputError with what the placement lacks here, if anything."""
    lack = engine.lacking()
    if lack:
        raise BadInputError("PLACEMENT", "docker", f"{lack.reason}: {lack.remedy}; or say PLACEMENT=host")


def may_raise_rtprio(client: docker.DockerClient, project: str) -> bool:
    """Try `--ulimit rtprio`: an engine without CAP_SYS_RESOURCE cannot start a container that has it."""
    trial = client.containers.create(
        "testbed/client", entrypoint="true", network_mode="none",
        labels={LABEL: "trial", "com.docker.compose.project": project},
        ulimits=[docker.types.Ulimit(name="rtprio", soft=90, hard=90)],
    )  # fmt: skip
    try:
        trial.start()
    except docker.errors.APIError:
        return False
    finally:
        trial.remove(force=True, v=True)
    return True


def leftover_projects(client: docker.DockerClient) -> set[str]:
    """Compose projects of ours that still have a container, a network or a volume."""
    labelled: dict[str, str | list[str] | bool] = {"label": LABEL}
    resources = [
        *client.containers.list(all=True, filters=labelled, ignore_removed=True),
        *client.networks.list(filters=labelled),
        *client.volumes.list(filters=labelled),
    ]
    return {
        (resource.attrs.get("Labels") or resource.attrs.get("Config", {}).get("Labels"))["com.docker.compose.project"]
        for resource in resources
    }


def remove(client: docker.DockerClient, project: str) -> None:
    """Remove everything of one Compose project, at once; raises StandError with what would not go."""
    ours = _of_project(project)
    containers = client.containers.list(all=True, filters=ours, ignore_removed=True)
    steps: list[tidy.Step] = [
        (f"container {each.name}", functools.partial(each.remove, force=True, v=True)) for each in containers
    ]
    steps += [(f"network {each.name}", each.remove) for each in client.networks.list(filters=ours)]
    steps += [
        (f"volume {each.name}", functools.partial(each.remove, force=True))
        for each in client.volumes.list(filters=ours)
    ]
    failed = tidy.each(steps)
    if failed:
        raise StandError(f"not removed: {'; '.join(failed)}; `make clean` tries again")


def lower_rt_budgets(client: docker.DockerClient) -> list[str]:
    """Take back the budgets that a killed run gave to the groups above its containers; returns those it lowered.

    The observer does it: the groups are where the engine is, and only root's. Only version 1 has budgets.
    """
    if str(client.info().get("CgroupVersion", "1")) != "1" or not client.images.list(name=images.OBSERVER):
        return []
    with passing_project(client) as project:
        try:
            return list(ask_observer(engine.environment(), project, do="lower")["lowered"])
        except StandError as error:  # e.g. an image of an older checkout
            raise StandError(
                f"budgets that a killed run gave may still be raised: {error}; `make images`, then `make clean` again"
            ) from None


@contextlib.contextmanager
def passing_project(client: docker.DockerClient) -> Iterator[str]:
    """Return a Compose project's name; what it got, be it only the stand's network, is removed at the end."""
    project = f"testbed-{secrets.token_hex(4)}"
    try:
        yield project
    finally:
        remove(client, project)


_POWERS_TO = {"examine": Powers(sets=True), "lower": Powers(writes_groups=True)}
"""To examine a machine is also to try whether one may become SCHED_FIFO there."""


def ask_observer(environment: dict[str, str], project: str, **request: Any) -> dict[str, Any]:
    """Ask an observer one thing, where the engine is, without a stand; raise StandError."""
    powers = _POWERS_TO[request["do"]]
    done = subprocess.run(
        ["docker", "compose", "--file", str(COMPOSE_FILE), "--project-name", project, "--profile", "*",
         "run", "--rm", "--no-deps", "-T", *(f"--cap-add={name}" for name in powers.capabilities()),
         "observer", json.dumps(request)],
        env=environment | powers.environment()
        | {"TESTBED_PROJECT": project, "TESTBED_RUN": "examine", "HOST_CPUS": "", "PI_CPUS": ""},
        capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        reply: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        raise StandError(f"the observer did not answer: {_last_line(done.stderr)}") from None
    if reply.get("error"):
        raise StandError(f"observer: {reply['error']}")
    return reply


def relocated(compose: str) -> str:
    """Write the Compose file as run from the checkout's point of view: where that lies is nobody else's business."""
    return re.sub(rf"{re.escape(str(ROOT))}(?=/|\s|$)", ".", compose)


def _of_project(project: str) -> dict[str, str | list[str] | bool]:
    return {"label": f"com.docker.compose.project={project}"}


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"

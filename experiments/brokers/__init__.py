# SPDX-License-Identifier: Apache-2.0
"""The broker under test. One folder a kind: how each placement gets it, its image, its configurations."""

from __future__ import annotations

import hashlib
import inspect
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from experiments.credentials import OPEN, Protection
from experiments.errors import BadInputError, StandError
from experiments.registry import Registry
from experiments.roots import Root

ROOT = Path(__file__).parents[2]
REGISTRY: Registry[type[Broker]] = Registry(__name__)


@dataclass(frozen=True)
class Setup:
    """What of the conditions a broker's configuration depends on."""

    tcp: str = "nodelay"
    security: str = "none"
    stores: bool = False
    """Must sessions, and messages for them, outlive its process?"""


class Broker:
    """A kind of broker.

    In containers it is the image that the Dockerfile in its folder builds, whose command is one word, a configuration
    under /broker, and which serves that at the address 0.0.0.0 and the port 1883 that it names. The configurations are
    the folder's files `nodelay.*` and, where it can do that, `nagle.*`.

    As a plain process it is the same program in the image's file system, exported once (`make brokers`), at 127.0.0.1.
    """

    kind: ClassVar[str]
    delivers: ClassVar[tuple[int, int, int]] = (0, 1, 2)
    """The QoS at which it hands on what was published with QoS 0, 1 and 2; what it cannot is refused beforehand."""
    version_command: ClassVar[str]
    """What prints its version in its container, in the first line."""
    shared_dockerfile: ClassVar[str | None] = None
    """Of brokers built alike, the file in this package that builds each from its folder, its argument KIND."""
    store: ClassVar[str | None] = None
    """Where its container keeps sessions over its own end; None: it is not prepared to."""
    memory: ClassVar[str] = "512m"
    """The most that its container may take."""
    tasks: ClassVar[int] = 64
    """The most processes and threads in its container."""
    writes: ClassVar[bool] = False
    """Does it write files? Then it has /state and /tmp, in memory and empty at each start."""
    contained_only: ClassVar[str | None] = None
    """Why its image's program is not to be run as a plain process; None: it can be."""

    def __init_subclass__(cls) -> None:
        REGISTRY.add(cls.kind, cls)

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return Path(inspect.getfile(type(self))).parent

    @property
    def dockerfile(self) -> Path:
        """What builds its image."""
        shared = self.shared_dockerfile
        return Path(__file__).with_name(shared) if shared else self.folder / "Dockerfile"

    @property
    def contained(self) -> bool:
        """Whether there is an image of it."""
        return self.dockerfile.exists()

    @property
    def tcp(self) -> dict[str, Path]:
        """Its configurations, by the value of TCP that they are for."""
        return {value: file for value in ("nodelay", "nagle") for file in self.folder.glob(f"{value}.*")}

    @property
    def image(self) -> str:
        """The repository of its image."""
        return f"testbed/broker-{self.kind}"

    @property
    def image_of(self) -> str:
        """Its key in `images` of bundle.json."""
        return f"broker-{self.kind}"

    def build(self, base: str) -> dict[str, Any]:
        """Return the Compose services, by name, that only say how its image is built upon `base`."""
        service = {
            "image": self.image, "profiles": [self.image_of],
            "build": {
                "context": ".", "dockerfile": str(self.dockerfile.relative_to(ROOT)),
                "labels": {"testbed.image": self.image}, "args": {"BASE_IMAGE": base, "KIND": self.kind},
                "secrets": ["ca"],
            },
        }  # fmt: skip
        return {self.image_of: service}

    def check_container(self, setup: Setup) -> None:
        """Raise BadInputError for what it cannot do in a container."""
        if not self.contained:
            raise BadInputError("BROKER", self.kind, "it has no image here; leave BROKER out, or say PLACEMENT=host")
        self._check_prepared(setup)

    def _check_prepared(self, setup: Setup) -> None:
        if setup.tcp not in self.tcp:
            raise BadInputError("TCP", setup.tcp, f"{self.kind} does {' and '.join(self.tcp)} only")
        if setup.security != "none" and not self.secured():
            raise BadInputError("SECURITY", setup.security, f"{self.kind} is not prepared for it; BROKER=mosquitto is")
        if setup.stores and not self.store:
            why = f"{self.kind} is not prepared to keep sessions over its own end; BROKER=mosquitto is"
            raise BadInputError("SESSION", "persistent", why)

    def check_qos(self, qos: int) -> None:
        """Raise BadInputError for a QoS at which it does not deliver."""
        if self.delivers[qos] != qos:
            able = ", ".join(str(each) for each in range(3) if self.delivers[each] == each)
            raise BadInputError("QOS", str(qos), f"{self.kind} delivers that at {self.delivers[qos]}; it can {able}")

    def file(self, setup: Setup) -> str:
        """Return where its container has the configuration for this set-up."""
        return f"/broker/{self.tcp[setup.tcp].name}"

    def configuration(self, setup: Setup) -> str:
        """Return the text of that file."""
        return self.tcp[setup.tcp].read_text()

    def secured(self) -> dict[str, str]:
        """Return by name the configurations that ask for a password, and hold none; see `experiments.credentials`."""
        return {}

    def compose(self, setup: Setup) -> dict[str, Any]:
        """Return what the Compose service `broker` gets to be it."""
        return {
            "image": self.image, "user": "65534:65534", "command": [self.file(setup)],
            "mem_limit": self.memory, "pids_limit": self.tasks, "tmpfs": _WRITABLE if self.writes else [],
        }  # fmt: skip

    def exports(self) -> bool:
        """Return whether `make brokers` is what brings its program to this machine."""
        overridden = type(self).host_command is not Broker.host_command
        return self.contained and not overridden and self._unexportable() is None

    def inputs(self) -> str:
        """Return a digest of the files that its image is built from: what is exported of others is out of date."""
        files = [file for file in sorted(self.folder.iterdir()) if file.is_file() and file.suffix != ".py"]
        parts = [file.name.encode() + b"\0" + file.read_bytes() for file in (*files, self.dockerfile)]
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()

    def _unexportable(self) -> str | None:
        named = all(_HERE in (text := file.read_text()) and _PORT in text for file in self.tcp.values())
        return self.contained_only or (None if named else f"no configuration of it names {_HERE} and {_PORT}")

    def available_on_host(self) -> bool:
        """Return whether `host_command` can run on this machine."""
        return not self.missing_on_host()

    def missing_on_host(self) -> str:
        """Return what to do where `available_on_host` is false."""
        if not self.contained:
            return "it has no image that could be exported; name another, or none"
        if why := self._unexportable():
            return f"it runs in containers only, for {why}; say PLACEMENT=docker"
        root = Root.of(self.kind)
        if root is None or root.inputs != self.inputs():
            how = "is not here" if root is None else "is here from other files than the present ones"
            return f"its program {how}; `make brokers` takes it out of its image, or say PLACEMENT=docker"
        if why := root.lacking():
            return f"this machine gives no file system of its own to a process: {why}; run as root, or PLACEMENT=docker"
        return ""

    def check_host(self, setup: Setup) -> None:
        """Raise BadInputError for what it cannot do as a plain process."""
        self.require_on_host()
        self._check_prepared(setup)

    def require_on_host(self) -> None:
        """Raise BadInputError where it cannot run on this machine."""
        if not self.available_on_host():
            raise BadInputError("BROKER", self.kind, self.missing_on_host())

    def host_file(self, folder: Path) -> Path:
        """Return where `host_command` writes the configuration."""
        return folder / f"{self.kind}{self.tcp['nodelay'].suffix}"

    def host_command(
        self,
        port: int,
        *,
        nodelay: bool,
        folder: Path,
        protection: Protection = OPEN,  # noqa: ARG002
    ) -> list[str]:
        """Return the command that serves 127.0.0.1:`port` on a configuration that it writes to `host_file(folder)`.

        Its last word is where the process sees that file. No secret goes into it, for the bundle keeps it: it names the
        files of `protection`.
        """
        setup, file, root = Setup("nodelay" if nodelay else "nagle"), self.host_file(folder), self._root()
        file.write_text(re.sub(rf"\b{_PORT}\b", str(port), self.configuration(setup).replace(_HERE, "127.0.0.1")))
        file.chmod(0o644)  # it is read as nobody
        return root.command(file, self.file(setup))

    def version_on_host(self) -> str:
        """What the bundle records."""
        return self._root().version

    def _root(self) -> Root:
        root = Root.of(self.kind)
        if root is None:  # it was there when the run was planned
            raise StandError(f"the program of {self.kind} is gone; `make brokers` takes it out of its image")
        return root


_HERE, _PORT = "0.0.0.0", "1883"  # noqa: S104 - within its container
# Java unpacks libraries of machine code to /tmp.
_WRITABLE = [f"/{folder}:mode=1777,{may}" for folder, may in (("state", "noexec"), ("tmp", "exec"))]


def parse(text: str) -> Broker:
    """Read a broker's name; raise BadInputError."""
    kinds = REGISTRY.all()
    if text not in kinds:
        raise BadInputError("BROKER", text, f"allowed are {', '.join(kinds)}")
    return kinds[text]()


def contained() -> list[Broker]:
    """One of each kind that there is an image of."""
    return [broker for broker in (kind() for kind in REGISTRY.all().values()) if broker.contained]


def several(text: str) -> list[str]:
    """Read one broker's name, or several parted by commas; raise BadInputError."""
    kinds = [parse(each.strip()).kind for each in text.split(",")]
    if len(set(kinds)) != len(kinds):
        raise BadInputError("BROKER", text, "each once")
    return kinds


def usual(placement: str) -> str:
    """The kind of broker that a placement has unless another is asked for."""
    return "mosquitto" if placement == "docker" else on_this_host().kind


def on_this_host() -> Broker:
    """The machine's own mosquitto if it has one, else the broker that came with our Python packages."""
    mosquitto = parse("mosquitto")
    return mosquitto if mosquitto.available_on_host() else parse("amqtt")

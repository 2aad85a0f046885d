# SPDX-License-Identifier: Apache-2.0
"""Images: built here, on published ones where a registry answers, else on Debian packages."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import docker

from experiments import brokers, building, engine
from experiments.brokers import Broker
from experiments.building import ROOT
from experiments.errors import BadInputError, StandError
from experiments.published import obtain
from experiments.roots import Chunks, Root

PUBLISHED_BASE = "debian:trixie-slim"
PUBLISHED_BROKER = "eclipse-mosquitto:2.0.22"
DEBIAN_BROKER = "from-debian"
"""The stage of the broker's Dockerfile that installs Debian's Mosquitto."""
BROKER = "testbed/broker"
OBSERVER = "testbed/observer"
BASE = "testbed/base:trixie"

_OURS = {
    "control-loop": "testbed/client", "pi": "testbed/pi", "board": "testbed/board",
    "stressor": "testbed/stressor", "flooder": "testbed/flooder", "observer": OBSERVER,
}  # fmt: skip
_VERSIONS = {
    "control-loop": "python3 -c \"import paho.mqtt; print('paho-mqtt', paho.mqtt.__version__)\"",
    "pi": "python3 -c \"import serial; print('pyserial', serial.__version__)\"",
}
_PACKAGES = (
    "if command -v dpkg-query >/dev/null; then dpkg-query -W -f '${Package}=${Version}\\n'; else apk info -v; fi"
)
_MOSQUITTO = ROOT / "experiments" / "brokers" / "mosquitto"
_REMEMBERED = ROOT / "build" / "image-contents.json"

LABEL = "testbed.image"
"""On each image that we build: the repository it is tagged with, which a later build of the same takes away."""


def repositories() -> dict[str, frozenset[str]]:
    """Return, by service, the repositories whose images a replay may run; the observer's is always the current one."""
    ours = {service: frozenset({name}) for service, name in _OURS.items() if service != "observer"}
    ours |= {broker.image_of: frozenset({broker.image}) for broker in brokers.contained()}
    # Before our configurations were in it, the broker's image was the published one, or Debian's under this name.
    return ours | {"broker": frozenset({BROKER, PUBLISHED_BROKER.rpartition(":")[0], "testbed/mosquitto"})}


@dataclass(frozen=True)
class Base:
    """What an image of ours is built on."""

    argument: str
    """For the Dockerfile: a name with its digest, a local image, or a stage."""
    reference: str
    origin: str
    digest: str | None = None

    def record(self) -> dict[str, str | None]:
        """Return its part of `images` in bundle.json."""
        return {"origin": self.origin, "base": self.reference, "digest": self.digest}


@dataclass(frozen=True)
class Images:
    """Which image each service runs, and the environment in which the docker command uses them."""

    environment: dict[str, str]
    references: dict[str, str]
    base: Base
    broker: Base

    def replaced(self, pinned: dict[str, str]) -> Images:
        """The same, but for services that must run an image given by its id."""
        return replace(self, references=self.references | pinned)

    def record(self, client: docker.DockerClient) -> dict[str, dict[str, Any]]:
        """Return `images` in bundle.json: what will really run, and the packages that its base has not."""
        plain = set(_contents(client, "", self.base.argument)["packages"])
        record = {}
        for service, reference in self.references.items():
            image = client.images.get(reference)
            contents = _contents(client, service, str(image.id))
            base = self.broker if service == "broker" else self.base
            published = service == "broker" and base.origin != "debian"
            record[service] = {
                "reference": base.reference if published else reference, "id": str(image.id),
                "version": contents["version"],
                "packages": [each for each in contents["packages"] if each not in plain],
            } | base.record()  # fmt: skip
        return record

    def record_base(self, client: docker.DockerClient) -> dict[str, Any]:
        """Return `base_image` in bundle.json: what all but the broker are built on, with its packages."""
        return self.base.record() | {"packages": _contents(client, "", self.base.argument)["packages"]}


def ensure(client: docker.DockerClient, kinds: Iterable[Broker] = ()) -> Images:
    """Pull or build what the stand needs, with these kinds of brokers; raise StandError.

    It says so when it falls back to Debian. Without a kind it is the broker of the Compose file, for work by hand.
    """
    kinds = list(kinds) or [brokers.parse("mosquitto")]
    base = _base(client)
    broker = _broker(client, base, tell=any(kind.image == BROKER for kind in kinds))
    environment = engine.environment() | {
        "CA_BUNDLE": os.environ.get("SSL_CERT_FILE", "/dev/null"),
        "BASE_IMAGE": base.argument, "BROKER_IMAGE": broker.argument, "BROKER_CONFIGURATIONS": _configurations(),
    }  # fmt: skip
    bases = [each.argument for each in (base, broker) if each.argument != DEBIAN_BROKER]
    more = {name: service for kind in kinds for name, service in kind.build(base.argument).items()}
    building.bring_up_to_date(client, environment, bases, more)
    return Images(environment, {kind.image_of: kind.image for kind in kinds} | _OURS, base, broker)


def ensure_able(client: docker.DockerClient, kinds: Iterable[Broker]) -> tuple[Images, dict[str, str]]:
    """Ensure the same but for brokers whose images cannot be built; returns also why, by kind. Raises StandError.

    Some need a registry of packages that may not answer.
    """
    kinds = list(kinds)
    try:
        return ensure(client, kinds), {}
    except StandError:
        failed = {kind.kind: why for kind in kinds if (why := _failure(client, kind))}
    return ensure(client, [kind for kind in kinds if kind.kind not in failed]), failed


def _failure(client: docker.DockerClient, kind: Broker) -> str | None:
    try:
        ensure(client, [kind])
    except StandError as error:
        return building.why(str(error))
    return None


def _base(client: docker.DockerClient) -> Base:
    wanted = os.environ.get("BASE_IMAGE", PUBLISHED_BASE)
    published = obtain(client, wanted)
    if published:
        return Base(published.pinned, wanted, "registry" if published.digest else "this host", published.digest)
    _require_default("BASE_IMAGE", wanted, PUBLISHED_BASE)
    architecture = str(client.version()["Arch"])
    if not client.images.list(name=BASE):
        print(f"testbed: no registry gives {wanted}; making {BASE} from Debian packages (a minute, once)", flush=True)
        building.run(
            ["bash", str(ROOT / "compose" / "host" / "base-image.sh"), BASE, architecture], engine.environment()
        )
    return Base(BASE, BASE, "debian")


def _broker(client: docker.DockerClient, base: Base, *, tell: bool = True) -> Base:
    wanted = os.environ.get("BROKER_IMAGE", PUBLISHED_BROKER)
    published = obtain(client, wanted) if wanted != DEBIAN_BROKER else None
    if published:
        return Base(published.pinned, wanted, "registry" if published.digest else "this host", published.digest)
    if wanted != DEBIAN_BROKER:
        _require_default("BROKER_IMAGE", wanted, PUBLISHED_BROKER)
        if tell:
            print(f"testbed: no registry gives {wanted}; Mosquitto is from Debian packages instead", flush=True)
    return Base(DEBIAN_BROKER, base.reference, "debian", base.digest)


def _require_default(name: str, wanted: str, default: str) -> None:
    """What a user named is not replaced by something else."""
    if wanted != default:
        raise BadInputError(name, wanted, "no registry gives it; leave it out for what Debian packages give")


def with_configurations(client: docker.DockerClient, image_id: str) -> str:
    """Return the id of a broker's image that has the present configurations in it: this one, or one built on it."""
    image = client.images.get(image_id)
    if ((image.attrs.get("Config") or {}).get("Labels") or {}).get("testbed.configurations") == _configurations():
        return image_id
    image.tag(f"{BROKER}-base", "pinned")  # a build names what it builds on, and cannot by id
    target = f"{BROKER}:pinned"
    building.run(
        ["docker", "build", "--quiet", "--build-arg", f"BROKER_IMAGE={BROKER}-base:pinned", "--tag", target,
         "--label", f"{LABEL}={BROKER}", "--label", f"testbed.configurations={_configurations()}",
         "--file", str(_MOSQUITTO / "Dockerfile"), "."],
        engine.environment(),
    )  # fmt: skip
    return str(client.images.get(target).id)


def _configurations() -> str:
    """Return a digest of the broker's configurations: an image that has it as its label has these very files."""
    files = sorted(_MOSQUITTO.glob("*.conf"))
    return hashlib.sha256(b"".join(file.name.encode() + b"\0" + file.read_bytes() for file in files)).hexdigest()


def export_firmware(client: docker.DockerClient) -> Path:
    """Take sketch and simulator out of the board's image, to run on this host; returns their folder."""
    built, target = ensure(client), ROOT / "firmware" / "build"
    building.run(
        ["docker", "build", "--build-arg", f"BASE_IMAGE={built.base.argument}", "--target", "artifacts",
         "--output", str(target), "--file", "compose/board/Dockerfile", "."],
        built.environment,
    )  # fmt: skip
    return target


def export_broker(client: docker.DockerClient, broker: Broker) -> Root:
    """Take a broker's file system out of its image, to run its program on this host; raise StandError, OSError."""
    image = client.images.get(broker.image)
    config = image.attrs["Config"]
    version = _contents(client, broker.image_of, str(image.id))["version"].removeprefix(broker.kind).strip(" v")
    environment = dict(each.split("=", 1) for each in config.get("Env") or ())
    root = Root(broker.kind, str(image.id), broker.inputs(), version, list(config["Entrypoint"]), environment)
    container = client.containers.create(str(image.id))
    try:
        root.write(io.BufferedReader(Chunks(cast("Iterable[bytes]", container.export()))))
    finally:
        container.remove()
    return root


def _version_commands() -> dict[str, str]:
    """By service, what prints the version of the program in its image."""
    return _VERSIONS | {broker.image_of: broker.version_command for broker in brokers.contained()}


def _contents(client: docker.DockerClient, service: str, image: str) -> dict[str, Any]:
    """Ask the image once for its program's version and its packages, and remember the answer by the image's id."""
    image_id = str(client.images.get(image).id)
    remembered: dict[str, dict[str, Any]] = json.loads(_REMEMBERED.read_text()) if _REMEMBERED.exists() else {}
    if image_id not in remembered:
        asking = f"{_version_commands().get(service, 'echo')} 2>&1 | head -n 1; {_PACKAGES}"
        said = client.containers.run(
            image_id, ["-c", asking], entrypoint="sh", remove=True, network_mode="none", stderr=False
        )
        version, *packages = said.decode(errors="replace").splitlines() or [""]
        remembered[image_id] = {"version": version, "packages": sorted(packages)}
        with contextlib.suppress(OSError):  # another user's checkout: asked again next time
            _REMEMBERED.parent.mkdir(exist_ok=True)
            _REMEMBERED.write_text(json.dumps(remembered, indent=1))
    return remembered[image_id]

# SPDX-License-Identifier: Apache-2.0
"""Images: the published broker and our own, or everything from Debian packages where no registry answers."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import docker
import docker.errors

from experiments.errors import StandError

ROOT = Path(__file__).parents[1]
PUBLISHED_BROKER = "eclipse-mosquitto:2.0.22"
DEBIAN_BROKER = "testbed/mosquitto:debian"
BASE = "testbed/base:trixie"

_OURS = {
    "control-loop": "testbed/client", "pi": "testbed/pi", "board": "testbed/board",
    "stressor": "testbed/stressor", "flooder": "testbed/flooder", "observer": "testbed/observer",
}  # fmt: skip
_VERSIONS = {
    "broker": ["mosquitto", "-h"],
    "control-loop": ["python3", "-c", "import paho.mqtt, sys; print('paho-mqtt', paho.mqtt.__version__)"],
    "pi": ["python3", "-c", "import serial, sys; print('pyserial', serial.__version__)"],
}
_REMEMBERED = ROOT / "build" / "image-versions.json"


LABEL = "testbed.image"
"""On each image that we build: the repository it is tagged with, which a later build of the same takes away."""


def repositories() -> dict[str, frozenset[str]]:
    """Give, by service, the repositories whose images a replay may run; the observer's is always the current one."""
    ours = {service: frozenset({name}) for service, name in _OURS.items() if service != "observer"}
    brokers = frozenset(name.rpartition(":")[0] for name in (PUBLISHED_BROKER, DEBIAN_BROKER))
    return ours | {"broker": brokers}


@dataclass(frozen=True)
class Images:
    """Which image each service runs, and the variables that tell Compose so."""

    environment: dict[str, str]
    references: dict[str, str]
    origin: str

    def replaced(self, pinned: dict[str, str]) -> Images:
        """The same, but for services that must run an image given by its id."""
        return replace(self, references=self.references | pinned)

    def record(self, engine: docker.DockerClient) -> dict[str, dict[str, str]]:
        """Give `images` in bundle.json: what will really run."""
        record = {}
        for service, reference in self.references.items():
            image_id = str(engine.images.get(reference).id)
            version = _version(service, reference, image_id) if service in _VERSIONS else ""
            record[service] = {"reference": reference, "id": image_id, "origin": self.origin, "version": version}
        return record


def ensure(engine: docker.DockerClient) -> Images:
    """Pull or build what the stand needs; says so when it falls back to Debian. Raises StandError."""
    environment = {"CA_BUNDLE": os.environ.get("SSL_CERT_FILE", "/dev/null")}
    origin = "registry"
    broker = os.environ.get("BROKER_IMAGE", PUBLISHED_BROKER)
    if not obtain(engine, broker):
        origin = "debian"
        print(f"testbed: no registry gives {broker}; building every image from Debian packages instead", flush=True)
        broker = DEBIAN_BROKER
        environment["BASE_IMAGE"] = BASE
        if not _here(engine, BASE):
            _run(["bash", str(ROOT / "compose" / "host" / "base-image.sh"), BASE], environment)
        _run(
            ["docker", "build", "--quiet", "--build-arg", f"BASE_IMAGE={BASE}", "--tag", DEBIAN_BROKER,
             "--label", f"{LABEL}={DEBIAN_BROKER.rpartition(':')[0]}",
             "--file", "compose/broker/Dockerfile", "."],
            environment,
        )  # fmt: skip
    environment["BROKER_IMAGE"] = broker
    _run(["docker", "compose", "--profile", "*", "build", "--quiet"], environment)
    return Images(environment, {"broker": broker, **_OURS}, origin)


def export_firmware(engine: docker.DockerClient) -> Path:
    """Take sketch and simulator out of the board's image, to run on this host; returns their folder."""
    found, target = ensure(engine), ROOT / "firmware" / "build"
    base = found.environment.get("BASE_IMAGE")
    _run(
        ["docker", "build", *(["--build-arg", f"BASE_IMAGE={base}"] if base else []), "--target", "artifacts",
         "--output", str(target), "--file", "compose/board/Dockerfile", "."],
        found.environment,
    )  # fmt: skip
    return target


def obtain(engine: docker.DockerClient, reference: str) -> bool:
    """Say whether a published image is here, after pulling it if need be."""
    return _here(engine, reference) or _pulled(reference)


def _here(engine: docker.DockerClient, reference: str) -> bool:
    try:
        engine.images.get(reference)
    except docker.errors.ImageNotFound:
        return False
    return True


def _pulled(reference: str) -> bool:
    try:
        done = subprocess.run(
            ["docker", "pull", "--quiet", reference],
            capture_output=True,
            check=False,
            timeout=300,
            start_new_session=True,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _run(command: list[str], environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False,
        start_new_session=True,
    )  # fmt: skip
    if done.returncode:
        raise StandError(f"{' '.join(command[:2])} failed:\n{(done.stderr or done.stdout).strip()[-2000:]}")


def _version(service: str, reference: str, image_id: str) -> str:
    """Ask the program in the image once, and remember its answer by the image's id."""
    remembered = json.loads(_REMEMBERED.read_text()) if _REMEMBERED.exists() else {}
    if image_id not in remembered:
        program, *arguments = _VERSIONS[service]
        done = subprocess.run(
            ["docker", "run", "--rm", "--network", "none", "--entrypoint", program, reference, *arguments],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        remembered[image_id] = (done.stdout.splitlines() or ["unknown"])[0]
        _REMEMBERED.parent.mkdir(exist_ok=True)
        _REMEMBERED.write_text(json.dumps(remembered, indent=1))
    return str(remembered[image_id])

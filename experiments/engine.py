# SPDX-License-Identifier: Apache-2.0
"""The container engine: the one that the `docker` command would use."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import Any

import docker
import docker.errors

NO_PERMISSION = "the engine is there but you may not use it"
JOIN_GROUP = "join group docker (sudo usermod -aG docker $USER, then log in again)"
INSTALL = "`make engine` (Debian, Ubuntu), or install Docker's Compose and Buildx plugins"
DOCKER_AS_ROOT = "use an engine that runs as root: `make engine`, or another DOCKER_HOST or Docker context"
OLDEST_COMPOSE = (2, 20)
"""Older ones drop CPU limits silently (docker/compose#9268, #9960, #10073)."""


@dataclass(frozen=True)
class Lack:
    """Why no run in containers is possible, and what to do about it."""

    reason: str
    remedy: str
    absent: bool = False
    """Is there no engine at all? Then plain processes are what is left; else the user would expect containers."""


def connect(timeout_s: float = 60) -> docker.DockerClient:
    """Give a client of the engine; raise DockerException where none answers."""
    return docker.from_env(timeout=int(timeout_s))


def lacking() -> Lack | None:
    """None when an engine, Compose and Buildx answer that a run can rely on; else what is missing."""
    try:
        client = connect(timeout_s=10)
        version, info = client.version(), client.info()
    except (docker.errors.DockerException, OSError) as error:
        if any(isinstance(cause, PermissionError) for cause in _causes(error)):
            return Lack(NO_PERMISSION, JOIN_GROUP)
        return Lack("no container engine answers", "`make engine`", absent=True)
    return unsuitable(version, info) or unsuitable_client(compose_version(), buildx_version())


def installed() -> bool:
    """Say whether there may be an engine although none answers: its command is here, or one is named."""
    return shutil.which("docker") is not None or "DOCKER_HOST" in os.environ


def unsuitable(version: dict[str, Any], info: dict[str, Any]) -> Lack | None:
    """Say why an engine that answers cannot give the proofs that a run rests on; None where it can."""
    if any("podman" in part.get("Name", "").lower() for part in version.get("Components") or ()):
        return Lack("Podman answers here, whose control groups and namespaces our proofs do not know", DOCKER_AS_ROOT)
    if any("rootless" in option for option in info.get("SecurityOptions") or ()):
        return Lack(
            "this engine is rootless, so nothing in it may set or read back what the kernel does", DOCKER_AS_ROOT
        )
    return None


def unsuitable_client(compose: str | None, buildx: str | None) -> Lack | None:
    """Say what the `docker` command lacks; None where it has all that a run takes."""
    if compose is None:
        return Lack("the engine answers, but there is no Compose v2 (docker compose)", INSTALL)
    if _numbers(compose) < OLDEST_COMPOSE:
        return Lack(f"Compose {compose} is older than {'.'.join(map(str, OLDEST_COMPOSE))}", INSTALL)
    if buildx is None:
        return Lack("the engine answers, but there is no Buildx (docker buildx) to build the images", INSTALL)
    return None


def compose_version() -> str | None:
    """Compose v2's version, None without it."""
    return _said(["docker", "compose", "version", "--short"])


def buildx_version() -> str | None:
    """Buildx' version, None without it."""
    said = _said(["docker", "buildx", "version"])
    return said.split()[1] if said and len(said.split()) > 1 else said


def _said(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except OSError:
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _causes(error: BaseException) -> list[BaseException]:
    """Give an error and all that it was raised from or carries: the SDK wraps the system's own three times."""
    chain = [error]
    for each in chain:
        wrapped = (each.__cause__, each.__context__, *each.args)
        chain += [part for part in wrapped if isinstance(part, BaseException) and part not in chain]
    return chain

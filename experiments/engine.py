# SPDX-License-Identifier: Apache-2.0
"""The container engine: the one that the `docker` command would use."""

from __future__ import annotations

import functools
import json
import os
import platform
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import docker.errors
import requests.exceptions

from experiments import ssh

GONE = "the engine does not answer any more; start it again (`make engine`), then `make clean` removes what is left"

TOO_SLOW = "the engine did not answer in time; is its machine overloaded? Try again with less beside it"

NO_PERMISSION = "the engine is there but you may not use it"
JOIN_GROUP = "join group docker (sudo usermod -aG docker $USER, then log in again)"
INSTALL = "`make engine` (Debian, Ubuntu), or install Docker's Compose and Buildx plugins"
DOCKER_AS_ROOT = "use a Docker Engine that runs as root: `make engine`, or another DOCKER_HOST or Docker context"
OLDEST_COMPOSE = (2, 20)
"""Older ones drop CPU limits silently (docker/compose#9268, #9960, #10073)."""


_SEE_INFO = "see what `docker info` says"
_DEFAULT_URL = "unix:///var/run/docker.sock"
_CHOOSING = ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH")


class UnknownContextError(docker.errors.DockerException):
    """A Docker context was asked for by a name that there is not."""

    remedy = "`docker context ls` lists those there are"

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no Docker context {name!r}")


class NoCertificatesError(docker.errors.DockerException):
    """DOCKER_TLS_VERIFY asks for certificates that are not there."""

    remedy = "DOCKER_CERT_PATH names the folder of ca.pem, cert.pem and key.pem"

    def __init__(self, why: str) -> None:
        super().__init__(f"no certificates for the engine: {why}")


@dataclass(frozen=True)
class Lack:
    """Why no run in containers is possible, and what to do about it."""

    reason: str
    remedy: str
    absent: bool = False
    """Is there no engine at all? Then plain processes are what is left; else the user would expect containers."""


class _Certificates(docker.TLSConfig):
    """Certificates for an engine by TLS, which the environment's own do not replace."""

    def configure_client(self, client: docker.APIClient) -> None:
        """As ever, but without the REQUESTS_CA_BUNDLE of a host behind an inspecting proxy, which would win."""
        super().configure_client(client)
        client.trust_env = False


@dataclass(frozen=True)
class Endpoint:
    """Where an engine listens, and how it is spoken to."""

    url: str
    tls: _Certificates | None = None

    @property
    def transport(self) -> str:
        """`unix`, `ssh`, `tcp`, …."""
        return self.url.partition("://")[0]


def endpoint() -> Endpoint:
    """Resolve DOCKER_HOST, DOCKER_CONTEXT and `docker context use` as the command does; raise DockerException."""
    return _endpoint(*(os.environ.get(name) for name in _CHOOSING))


ROOTLESS = Lack("this engine is rootless, so nothing in it may set or read back what the kernel does", DOCKER_AS_ROOT)


def connect(timeout_s: float = 60) -> docker.DockerClient:
    """Return a client of the engine; raise DockerException where none answers."""
    where = endpoint()
    if where.transport == "ssh":
        client = docker.DockerClient(base_url=f"unix://{ssh.forwarded(where.url)}", timeout=int(timeout_s))
    else:
        client = docker.DockerClient(base_url=where.url, tls=where.tls or False, timeout=int(timeout_s))
    return patient(client)


def patient(client: docker.DockerClient) -> docker.DockerClient:
    """Have it say of an engine that is too slow what a user can act on; the SDK names only a connection pool."""
    send = client.api.send

    def send_in_words(*arguments: Any, **options: Any) -> Any:
        try:
            return send(*arguments, **options)
        except requests.exceptions.ReadTimeout as error:
            raise TimeoutError(TOO_SLOW) from error

    client.api.send = send_in_words  # type: ignore[method-assign]
    return client


def environment() -> dict[str, str]:
    """Return the environment in which the docker command talks to the engine that `connect` talks to.

    Over SSH both use one connection: a command would open one for each of its requests.
    """
    where = endpoint()
    if where.transport != "ssh":
        return dict(os.environ)
    kept = {name: value for name, value in os.environ.items() if name not in _CHOOSING or name == "DOCKER_CONFIG"}
    return kept | {"DOCKER_HOST": f"unix://{ssh.forwarded(where.url)}"}


def is_far() -> bool:
    """Return whether the engine is on another machine, or in a virtual one: then our own files say nothing of it.

    False without an engine.
    """
    return far_cpus() is not None


def far_cpus() -> list[int] | None:
    """Return the CPUs of an engine's machine that is not ours; None where it is ours, or where no engine answers."""
    return _far_cpus(*(os.environ.get(name) for name in _CHOOSING))


def lacking() -> Lack | None:
    """None when an engine, Compose and Buildx answer that a run can rely on; else what is missing."""
    try:
        client = connect(timeout_s=10)
        version, info = client.version(), client.info()
    except (ssh.NoWayError, UnknownContextError, NoCertificatesError) as error:
        return Lack(str(error), error.remedy)
    except (docker.errors.DockerException, OSError) as error:
        causes = _causes(error)
        if any(isinstance(cause, PermissionError) for cause in causes):
            return Lack(NO_PERMISSION, JOIN_GROUP)
        if endpoint().transport != "unix":  # asked for by name: plain processes here are not what is meant
            return Lack(f"no container engine answers at {endpoint().url} ({causes[-1]})", _SEE_INFO)
        if not any(isinstance(cause, FileNotFoundError | ConnectionRefusedError) for cause in causes):
            return _unwell(causes[-1])
        return Lack("no container engine answers", "`make engine`", absent=True)
    return unsuitable(version, info) or unsuitable_client(compose_version(), buildx_version())


def installed() -> bool:
    """Return whether there may be an engine although none answers: its command is here, or one is named."""
    return shutil.which("docker") is not None or "DOCKER_HOST" in os.environ


def unsuitable(version: dict[str, Any], info: dict[str, Any]) -> Lack | None:
    """Return why an engine that answers cannot give the proofs that a run rests on; None where it can."""
    if any("podman" in part.get("Name", "").lower() for part in version.get("Components") or ()):
        return Lack("Podman answers here, whose control groups and namespaces our proofs do not know", DOCKER_AS_ROOT)
    return ROOTLESS if any("rootless" in option for option in info.get("SecurityOptions") or ()) else None


def _unwell(cause: BaseException) -> Lack:
    """Return what is wrong with an engine that listens but does not answer as one; the command may know it is rootless.

    Engine 26 crashes when a rootless one without a network driver of its own is asked for its version.
    """
    if "rootless" in (_said(["docker", "info", "--format", "{{.SecurityOptions}}"]) or ""):
        return ROOTLESS
    return Lack(f"something listens for the engine but does not answer as one ({cause})", _SEE_INFO)


def unsuitable_client(compose: str | None, buildx: str | None) -> Lack | None:
    """Return what the `docker` command lacks; None where it has all that a run takes."""
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


@functools.lru_cache(maxsize=8)
def _endpoint(url: str | None, context: str | None, *_more: str | None) -> Endpoint:
    try:
        done = subprocess.run(["docker", "context", "inspect"], capture_output=True, text=True, check=False)
    except OSError:
        return Endpoint(url or _DEFAULT_URL)  # no docker command: there are no contexts either
    if done.returncode and not context and os.environ.get("DOCKER_TLS_VERIFY"):
        raise NoCertificatesError(done.stderr.strip())
    if done.returncode:
        raise UnknownContextError(context or done.stderr.strip())
    (chosen,) = json.loads(done.stdout)
    target = chosen["Endpoints"]["docker"]
    return Endpoint(target["Host"] or _DEFAULT_URL, _tls(chosen, verify=not target.get("SkipTLSVerify")))


@functools.lru_cache(maxsize=8)
def _far_cpus(*_choosing: str | None) -> list[int] | None:
    try:
        info = connect(timeout_s=10).info()
    except (docker.errors.DockerException, OSError):
        return None
    here = (info["Name"], info["KernelVersion"]) == (platform.node(), platform.release())
    return None if here and endpoint().transport == "unix" else list(range(int(info["NCPU"])))


def _tls(context: dict[str, Any], *, verify: bool) -> _Certificates | None:
    """Return the certificates kept with a context, or for the default one those that DOCKER_CERT_PATH names."""
    files = context.get("TLSMaterial", {}).get("docker")
    if not files:
        return None
    of_environment = Path(os.environ.get("DOCKER_CERT_PATH") or Path.home() / ".docker")
    kept = Path(context["Storage"]["TLSPath"]) / "docker"
    folder = of_environment if context["Name"] == "default" else kept
    pair = (str(folder / "cert.pem"), str(folder / "key.pem")) if "cert.pem" in files else None
    return _Certificates(client_cert=pair, ca_cert=str(folder / "ca.pem") if "ca.pem" in files else None, verify=verify)


def _said(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    except OSError:
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])


def _causes(error: BaseException) -> list[BaseException]:
    """Return an error and all that it was raised from or carries: the SDK wraps the system's own three times."""
    chain = [error]
    for each in chain:
        wrapped = (each.__cause__, each.__context__, *each.args)
        chain += [part for part in wrapped if isinstance(part, BaseException) and part not in chain]
    return chain

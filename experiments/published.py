# SPDX-License-Identifier: Apache-2.0
"""Published images: pulled where a registry answers in time, and used only where they fit the engine's machine."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass
from typing import Any

import docker
import docker.auth
import docker.errors
from docker.models.images import Image
from docker.utils import parse_repository_tag

from experiments import engine

PATIENCE_S = 20
"""Longest silence of a registry, before and between the parts of an image."""

_SILENT: set[str] = set()
"""Registries that did not answer: asked once a run."""
_REFUSALS = ("not found", "unknown", "denied", "unauthorized")
"""In a registry's own words; any other error means that it cannot be reached."""


@dataclass(frozen=True)
class Published:
    """An image that somebody publishes, here now."""

    reference: str
    id: str
    digest: str | None
    """Its content's, as the registry gave it; None for an image that was loaded, imported or built here."""

    @property
    def pinned(self) -> str:
        """The name that gives these very bytes, where there is one."""
        return self.digest or self.reference


def obtain(client: docker.DockerClient, reference: str) -> Published | None:
    """Return a published image, after pulling it if need be; None, and a line why, where it cannot be had."""
    image = _here(client, reference) or _pulled(client, reference)
    if image is None:
        return None
    wanted, architecture = str(client.version()["Arch"]), image.attrs.get("Architecture")
    if architecture and architecture != wanted:
        _say(f"{reference} is built for {architecture}, this engine runs {wanted}: not used")
        return None
    digests = image.attrs.get("RepoDigests") or ()
    repository = parse_repository_tag(reference.partition("@")[0])[0]
    digest = next((each for each in digests if each.partition("@")[0] == repository), None)
    return Published(reference, str(image.id), digest)


def _here(client: docker.DockerClient, reference: str) -> Image | None:
    try:
        return client.images.get(reference)
    except docker.errors.ImageNotFound:
        return None


def _pulled(client: docker.DockerClient, reference: str) -> Image | None:
    registry = docker.auth.resolve_repository_name(reference)[0]
    if registry in _SILENT:
        return None
    progress: queue.Queue[dict[str, Any] | None] = queue.Queue()
    threading.Thread(target=_pull, args=(reference, progress), daemon=True).start()
    try:
        while (event := progress.get(timeout=PATIENCE_S)) is not None:
            if "error" in event:
                if not any(word in event["error"].lower() for word in _REFUSALS):
                    _SILENT.add(registry)
                return None
    except queue.Empty:
        # Left alone: the engine gives it up in its own time.
        _SILENT.add(registry)
        _say(f"{registry} said nothing for {PATIENCE_S} s; not asked again in this run")
        return None
    return _here(client, reference)


def _pull(reference: str, progress: queue.Queue[dict[str, Any] | None]) -> None:
    """Pull, telling of each part; None at the end. The SDK's own time limit is not for pulls."""
    repository, tag = parse_repository_tag(reference)
    try:
        for event in engine.connect().api.pull(repository, tag=tag or "latest", stream=True, decode=True):
            progress.put(event)
    except (docker.errors.DockerException, OSError) as error:
        progress.put({"error": str(error)})
    progress.put(None)


def _say(line: str) -> None:
    print(f"testbed: {line}", flush=True)

# SPDX-License-Identifier: Apache-2.0
"""The broker under test. One file a kind."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from experiments.credentials import OPEN, Protection
from experiments.errors import BadInputError
from experiments.registry import Registry

REGISTRY: Registry[type[Broker]] = Registry(__name__)


class Broker:
    """A kind of broker; subclasses say how each placement gets it."""

    kind: ClassVar[str]
    in_docker: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        REGISTRY.add(cls.kind, cls)

    def available_on_host(self) -> bool:
        """Return whether `host_command` can run on this machine."""
        raise NotImplementedError

    def missing_on_host(self) -> str:
        """Return what to do where `available_on_host` is false."""
        return "not installed on this host; leave BROKER out to use amqtt"

    def host_command(self, port: int, *, nodelay: bool, folder: Path, protection: Protection = OPEN) -> list[str]:
        """Return the command that serves 127.0.0.1:`port`, ending in `-c FILE`, a configuration it writes to `folder`.

        No secret goes into the configuration, which the bundle keeps: it names the files of `protection`.
        """
        raise NotImplementedError

    def version_on_host(self) -> str:
        """What the bundle records."""
        raise NotImplementedError


def parse(text: str) -> Broker:
    """Read a broker's name; raise BadInputError."""
    kinds = REGISTRY.all()
    if text not in kinds:
        raise BadInputError("BROKER", text, f"allowed are {', '.join(kinds)}")
    return kinds[text]()


def usual(placement: str) -> str:
    """The kind of broker that a placement has unless another is asked for."""
    return "mosquitto" if placement == "docker" else on_this_host().kind


def on_this_host() -> Broker:
    """The machine's own mosquitto if it has one, else the broker that came with our Python packages."""
    mosquitto = parse("mosquitto")
    return mosquitto if mosquitto.available_on_host() else parse("amqtt")

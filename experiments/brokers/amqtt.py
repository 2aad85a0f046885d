# SPDX-License-Identifier: Apache-2.0
"""aMQTT, a broker in pure Python: what a bare machine gets, installed beside our own packages."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path

from experiments.brokers import Broker

_PROGRAM = Path(sys.executable).with_name("amqtt")


class Amqtt(Broker):
    """asyncio sets TCP_NODELAY on every connection, so it cannot replay Nagle."""

    kind = "amqtt"

    def available_on_host(self) -> bool:
        """It is among our own requirements, whose programs stand beside the interpreter."""
        return _PROGRAM.exists()

    def missing_on_host(self) -> str:
        """It comes with our packages, so these are not whole."""
        return f"{_PROGRAM} is not there; remove .venv and run make again, or install mosquitto"

    def host_command(self, port: int, *, nodelay: bool, folder: Path) -> list[str]:  # noqa: ARG002
        """Run on a configuration that lets everyone in, on loopback."""
        configuration = folder / "amqtt.yaml"
        settings = {
            "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
            "plugins": {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}},
        }
        configuration.write_text(json.dumps(settings))  # YAML is a superset of JSON
        return [str(_PROGRAM), "-c", str(configuration)]

    def version_on_host(self) -> str:
        """As installed."""
        return importlib.metadata.version("amqtt")

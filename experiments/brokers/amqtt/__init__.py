# SPDX-License-Identifier: Apache-2.0
"""aMQTT, a broker in pure Python: what a bare machine gets, installed beside our own packages; also in a container."""

from __future__ import annotations

import importlib.metadata
import json
import sys
from pathlib import Path

from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher

from clients.security import USER
from experiments.brokers import Broker, Setup
from experiments.credentials import OPEN, Protection
from experiments.errors import BadInputError

# A random password of 32 bytes needs no slow hash, and every connection would wait for it.
_HASHES = PasswordHash((Argon2Hasher(time_cost=1, memory_cost=8, parallelism=1),))
_PLUGINS = "amqtt.plugins.authentication"

_PROGRAM = Path(sys.executable).with_name("amqtt")


class Amqtt(Broker):
    """asyncio sets TCP_NODELAY on every connection, so it cannot replay Nagle."""

    kind = "amqtt"
    version_command = "python3 -c \"import amqtt; print('amqtt', amqtt.__version__)\""

    def available_on_host(self) -> bool:
        """It is among our own requirements, whose programs stand beside the interpreter."""
        return _PROGRAM.exists()

    def missing_on_host(self) -> str:
        """It comes with our packages, so these are not whole."""
        return f"{_PROGRAM} is not there; remove .venv and run make again, or install mosquitto"

    def check_host(self, setup: Setup) -> None:
        """It has Nagle's algorithm off, and forgets."""
        self.require_on_host()
        if setup.tcp == "nagle":
            why = "aMQTT always switches Nagle off; install mosquitto, or PLACEMENT=docker"
            raise BadInputError("TCP", setup.tcp, why)
        if setup.stores:
            why = "aMQTT keeps none of clients without a password; install mosquitto, or say PLACEMENT=docker"
            raise BadInputError("SESSION", "persistent", why)

    def host_command(
        self,
        port: int,
        *,
        nodelay: bool,  # noqa: ARG002
        folder: Path,
        protection: Protection = OPEN,
    ) -> list[str]:
        """Run on a configuration for loopback, which lets everyone in unless it is protected."""
        configuration = self.host_file(folder)
        listener: dict[str, object] = {"type": "tcp", "bind": f"127.0.0.1:{port}"}
        plugin: dict[str, object] = {f"{_PLUGINS}.AnonymousAuthPlugin": {"allow_anonymous": True}}
        if protection.kind != "none":
            passwords = Path(protection.file("passwords.argon2"))
            passwords.touch(mode=0o600)
            passwords.write_text(f"{USER}:{_HASHES.hash(protection.password)}\n")
            plugin = {f"{_PLUGINS}.FileAuthPlugin": {"password_file": str(passwords)}}
        if protection.kind == "tls":
            listener |= {"ssl": True} | {
                name: protection.file(file) for name, file in (("certfile", "server.pem"), ("keyfile", "server.key"))
            }
        settings = {"listeners": {"default": listener}, "plugins": plugin}
        configuration.write_text(json.dumps(settings))  # YAML is a superset of JSON
        return [str(_PROGRAM), "-c", str(configuration)]

    def version_on_host(self) -> str:
        """As installed."""
        return importlib.metadata.version("amqtt")

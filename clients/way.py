# SPDX-License-Identifier: Apache-2.0
"""How a client reaches the broker: where it is, Nagle's algorithm off or on, and as who."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from clients import security
from clients.security import OPEN, Security


@dataclass(frozen=True)
class Way:
    """The address, which is also the name that a certificate must bear, and how to connect to it."""

    host: str
    port: int = 1883
    nodelay: bool = True
    credentials: Security = OPEN
    persistent: bool = False
    """Does the broker keep the session while the client is away?"""

    @classmethod
    def of(cls, options: argparse.Namespace) -> Way:
        """As the command line says (`add_arguments`); raises OSError where credentials cannot be read."""
        credentials = security.read(options.security, options.credentials)
        persistent = options.session == "persistent"
        return cls(options.broker, options.port, options.tcp == "nodelay", credentials, persistent)


def add_arguments(parser: argparse.ArgumentParser, *broker: str) -> None:
    """Let the command line, or variables of the same names, say the way; `broker`: further names of that option."""
    known = os.environ.get
    parser.add_argument("--broker", *broker, default=known("BROKER_HOST", "broker"), help="host name or address")
    parser.add_argument("--port", type=int, default=int(known("BROKER_PORT", "1883")))
    parser.add_argument("--tcp", choices=("nodelay", "nagle"), default=known("TCP", "nodelay"))
    parser.add_argument("--session", choices=("clean", "persistent"), default=known("SESSION", "clean"))
    parser.add_argument("--security", choices=security.KINDS, default=known("SECURITY", "none"))
    parser.add_argument(
        "--credentials", type=Path, default=Path(known("CREDENTIALS", security.FOLDER)), help="this run's folder"
    )

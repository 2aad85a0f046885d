# SPDX-License-Identifier: Apache-2.0
"""What a client shows the broker, and what it asks of it: nothing, a password, or a password within TLS.

A folder made for one run holds `password` and, for TLS, `ca.pem`, the only authority whose signature is believed.
"""

from __future__ import annotations

import hashlib
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

KINDS = ("none", "password", "tls")
USER = "testbed"
FOLDER = "/run/testbed/credentials/client"
"""Where a container finds them."""


@dataclass(frozen=True)
class Security:
    """One client's side; without a password it connects as anybody may."""

    password: str | None = None
    tls: ssl.SSLContext | None = None

    @property
    def user(self) -> str | None:
        """The name that goes with the password."""
        return None if self.password is None else USER


OPEN = Security()
"""SECURITY=none."""


def read(kind: str, folder: Path) -> Security:
    """The credentials for `kind` (one of KINDS) in `folder`; raises OSError where they cannot be read."""
    if kind == "none":
        return OPEN
    password = (folder / "password").read_text().strip()
    return Security(password, ssl.create_default_context(cafile=folder / "ca.pem") if kind == "tls" else None)


def of_connection(sock: Any, security: Security) -> dict[str, Any]:
    """What this connection is protected by, read back from it: user, TLS version, cipher, the server's certificate.

    `server` is the certificate's SHA-256 fingerprint; a connection whose certificate was not verified never opens.
    """
    facts: dict[str, Any] = {"user": security.user, "tls": None, "cipher": None, "server": None}
    if isinstance(sock, ssl.SSLSocket | ssl.SSLObject):
        certificate = sock.getpeercert(binary_form=True)
        cipher = sock.cipher()
        facts |= {
            "tls": sock.version(),
            "cipher": cipher[0] if cipher else None,
            "server": hashlib.sha256(certificate).hexdigest() if certificate else None,
        }
    return facts

# SPDX-License-Identifier: Apache-2.0
"""Certificates and a password made for one run: nothing to keep, nothing to leak once it is over."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import os
import secrets
import shutil
import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import trustme

from clients.security import USER


@dataclass(frozen=True)
class Protection:
    """What a broker asks of its clients (`none`, `password`, `tls`), and the folder `issue` made."""

    kind: str
    folder: Path

    @property
    def password(self) -> str:
        """In the clear, for brokers that hash it their own way."""
        return (self.folder / "client" / "password").read_text()

    def file(self, name: str) -> str:
        """The path of one of the broker's files."""
        return str(self.folder / "broker" / name)


OPEN = Protection("none", Path())

_LIFETIME = dt.timedelta(days=30)
"""Longer than any run, and no longer than one might forget a folder."""
_ROUNDS = 1000

PREFIX = "testbed-credentials-"
"""How temporary folders of credentials begin, so that `make clean` finds what a kill left of them."""


def issue(folder: Path, names: Sequence[str]) -> Path:
    """Make an authority, a certificate for a broker reached by `names`, and a password; returns `folder`.

    `broker/` has `ca.pem`, `server.pem`, `server.key` and `passwords` in Mosquitto's format, `client/` has `ca.pem` and
    `password`: a client gets nothing of the broker's.
    """
    for part in (folder, folder / "broker", folder / "client"):
        part.mkdir(mode=0o700, parents=True, exist_ok=True)
    expires = dt.datetime.now(dt.UTC) + _LIFETIME
    authority = trustme.CA(organization_name="MQTT contention testbed")
    server = authority.issue_cert(*names, not_after=expires)
    password = secrets.token_urlsafe(32)
    for side in ("broker", "client"):
        _write(folder / side / "ca.pem", authority.cert_pem.bytes())
    _write(folder / "broker" / "server.pem", b"".join(part.bytes() for part in server.cert_chain_pems))
    _write(folder / "broker" / "server.key", server.private_key_pem.bytes())
    _write(folder / "broker" / "passwords", f"{USER}:{_hashed(password)}\n".encode())
    _write(folder / "client" / "password", password.encode())
    return folder


def remove_leftovers() -> list[Path]:
    """Remove what killed runs of this user left in the temporary folder; returns those folders."""
    leftovers = [path for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*") if path.lstat().st_uid == os.getuid()]
    for path in leftovers:
        shutil.rmtree(path, ignore_errors=True)
    return leftovers


def fingerprint(folder: Path) -> str:
    """SHA-256 of the broker's certificate in an issued folder, as `clients.security` tells it of a connection."""
    first, _, _ = (folder / "broker" / "server.pem").read_text().partition("-----END CERTIFICATE-----")
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(first + "-----END CERTIFICATE-----\n")).hexdigest()


def _hashed(password: str) -> str:
    """As mosquitto_passwd(1) writes it: `$7$ROUNDS$SALT$PBKDF2-HMAC-SHA512`, salt and hash in base64."""
    salt = secrets.token_bytes(12)
    digest = hashlib.pbkdf2_hmac("sha512", password.encode(), salt, _ROUNDS)
    return f"$7${_ROUNDS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)

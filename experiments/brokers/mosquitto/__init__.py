# SPDX-License-Identifier: Apache-2.0
"""Eclipse Mosquitto: in its container, which the Compose file itself describes, or the machine's own."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import stat
import subprocess
from pathlib import Path
from typing import Any

from experiments.brokers import Broker, Setup
from experiments.credentials import OPEN, Protection
from experiments.errors import StandError
from experiments.knobs.security import FOLDER

_CONFIGURATIONS = Path(__file__).parent


class Mosquitto(Broker):
    """Single-threaded, the broker of the thesis."""

    kind = "mosquitto"
    image = "testbed/broker"
    image_of = "broker"
    version_command = "mosquitto -h"
    store = "/mosquitto/data"

    def build(self, base: str) -> dict[str, Any]:  # noqa: ARG002
        """The Compose file says it."""
        return {}

    def file(self, setup: Setup) -> str:
        """In the image, or beside the run's credentials where it names them."""
        name = f"{setup.tcp}-persistent.conf" if setup.stores else f"{setup.tcp}.conf"
        return (
            f"/mosquitto/config/{name}"
            if setup.security == "none"
            else f"{FOLDER}/configuration/{setup.security}-{name}"
        )

    def configuration(self, setup: Setup) -> str:
        """The file in its folder, protected as asked for."""
        name = Path(self.file(setup)).name.removeprefix(f"{setup.security}-")
        return protected((_CONFIGURATIONS / name).read_text(), Protection(setup.security, Path(FOLDER)))

    def secured(self) -> dict[str, str]:
        """Each configuration with a password, and with TLS as well."""
        kinds = itertools.product(self.tcp, ("password", "tls"), (False, True))
        setups = [Setup(*each) for each in kinds]
        return {Path(self.file(setup)).name: self.configuration(setup) for setup in setups}

    def compose(self, setup: Setup) -> dict[str, Any]:
        """The Compose file says the rest."""
        return {"command": ["/usr/sbin/mosquitto", "-c", self.file(setup)]}

    def available_on_host(self) -> bool:
        """Debian installs it outside an ordinary user's PATH."""
        return _binary() is not None

    def missing_on_host(self) -> str:
        """Its program is the machine's own."""
        return "it is not installed on this machine; install it, or say PLACEMENT=docker"

    def host_command(self, port: int, *, nodelay: bool, folder: Path, protection: Protection = OPEN) -> list[str]:
        """Run on the container's own configuration, but for the address."""
        source = _CONFIGURATIONS / ("nodelay.conf" if nodelay else "nagle.conf")
        configuration = self.host_file(folder)
        text = source.read_text().replace("listener 1883", f"listener {port} 127.0.0.1")
        configuration.write_text(protected(text, protection))
        if protection.kind != "none" and os.geteuid() == 0:
            _hand_over(protection)
        return [str(_binary()), "-c", str(configuration)]

    def version_on_host(self) -> str:
        """As the program says it."""
        said = subprocess.run([str(_binary()), "-h"], capture_output=True, text=True, check=False).stdout
        return said.splitlines()[0].removeprefix("mosquitto version ") if said else "unknown"


def protected(configuration: str, protection: Protection) -> str:
    """The same configuration, with nobody let in unless as `protection` says."""
    if protection.kind == "none":
        return configuration
    lines = ["allow_anonymous false", f"password_file {protection.file('passwords')}"]
    if protection.kind == "tls":
        lines += [f"certfile {protection.file('server.pem')}", f"keyfile {protection.file('server.key')}"]
        lines += ["tls_version tlsv1.3"]
    return configuration.replace("allow_anonymous true", "\n".join(lines))


def _hand_over(protection: Protection) -> None:
    """Give the broker's files to the user that Mosquitto, started by root, becomes before it reads them.

    Raises StandError where that user cannot come to them, as under libpam-tmpdir's folders.
    """
    users = {entry.pw_name for entry in pwd.getpwall()}
    user = "mosquitto" if "mosquitto" in users else "nobody"
    closed = [folder for folder in protection.folder.parents if not folder.stat().st_mode & stat.S_IXOTH]
    if closed:
        remedy = "say TMPDIR=/tmp, or run as an ordinary user"
        raise StandError(f"{closed[0]} keeps {user}, which Mosquitto becomes, from this run's credentials; {remedy}")
    protection.folder.chmod(0o711)
    for path in (protection.folder / "broker", *(protection.folder / "broker").iterdir()):
        shutil.chown(path, user)


def _binary() -> str | None:
    return shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")

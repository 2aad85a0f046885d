# SPDX-License-Identifier: Apache-2.0
"""Eclipse Mosquitto: in its container, or the machine's own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from experiments.brokers import Broker

_CONFIGURATIONS = Path(__file__).parents[2] / "compose" / "broker"


class Mosquitto(Broker):
    """Single-threaded, the broker of the thesis."""

    kind = "mosquitto"
    in_docker = True

    def available_on_host(self) -> bool:
        """Debian installs it outside an ordinary user's PATH."""
        return _binary() is not None

    def host_command(self, port: int, *, nodelay: bool, folder: Path) -> list[str]:
        """Run on the container's own configuration, but for the address."""
        source = _CONFIGURATIONS / ("nodelay.conf" if nodelay else "nagle.conf")
        configuration = folder / "mosquitto.conf"
        configuration.write_text(source.read_text().replace("listener 1883", f"listener {port} 127.0.0.1"))
        return [str(_binary()), "-c", str(configuration)]

    def version_on_host(self) -> str:
        """As the program says it."""
        said = subprocess.run([str(_binary()), "-h"], capture_output=True, text=True, check=False).stdout
        return said.splitlines()[0].removeprefix("mosquitto version ") if said else "unknown"


def _binary() -> str | None:
    return shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")

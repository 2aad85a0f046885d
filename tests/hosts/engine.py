# SPDX-License-Identifier: Apache-2.0
"""A second engine on this host, whose data are a guest's: it fills the guest's store of images and build cache.

It runs in a network of its own, joined to the outside by slirp4netns, so that it and the host's engine never touch
each other's bridges and rules.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from hosts import processes
from hosts.errors import HostTestError

_PATIENCE_S = 60.0
_RESOLVER = "10.0.2.3"
"""Where slirp4netns answers for the host's name servers."""


@contextlib.contextmanager
def on(data: Path, log: Path) -> Iterator[str]:
    """Run an engine on this folder; gives its address, for DOCKER_HOST."""
    with contextlib.ExitStack() as stack:
        run = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="host-test-")))
        (run / "resolv.conf").write_text(f"nameserver {_RESOLVER}\n")
        daemon = processes.start(_command(data, run), log)
        stack.callback(processes.stop, daemon)
        _until((run / "apart").exists, daemon, log)
        joined = ["slirp4netns", "--configure", "--mtu=65520", "--disable-host-loopback", str(daemon.pid), "tap0"]
        stack.callback(processes.stop, processes.start(joined, log))
        address = f"unix://{run}/docker.sock"
        _until(lambda: _answers(address), daemon, log)
        yield address


def _command(data: Path, run: Path) -> list[str]:
    """Begin with the name spaces, go on as dockerd: one process, so that to stop it is to stop all."""
    script = (
        'mount --bind "$0/resolv.conf" /etc/resolv.conf && ip link set lo up && touch "$0/apart" && '
        'exec dockerd --data-root "$1" --exec-root "$0/exec" --pidfile "$0/dockerd.pid" --host "unix://$0/docker.sock" '
        "--containerd-namespace host-test --containerd-plugins-namespace host-test-plugins"
    )
    return ["unshare", "--net", "--mount", "sh", "-euc", script, str(run), str(data)]


def _answers(address: str) -> bool:
    asked = ["docker", "--host", address, "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(asked, capture_output=True, check=False).returncode == 0


def _until(ready: Callable[[], bool], daemon: subprocess.Popen[bytes], log: Path) -> None:
    until_s = time.monotonic() + _PATIENCE_S
    while not ready():
        if daemon.poll() is not None or time.monotonic() > until_s:
            raise HostTestError(f"the engine that prepares the guest's images does not answer; see {log}")
        time.sleep(0.1)

# SPDX-License-Identifier: Apache-2.0
"""An engine behind SSH: its socket brought here over one connection of the system's own client."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import tempfile
import urllib.parse
from pathlib import Path

_CONNECT_TIMEOUT_S = 10
_ENGINE_SOCKET = "/var/run/docker.sock"


class NoWayError(OSError):
    """No connection to the other machine; says what ssh said."""

    remedy = "`ssh` must reach it without a question (a key, an agent, a known host), and its user be in group docker"


@functools.cache
def forwarded(url: str) -> Path:
    """Return a local socket that leads to the engine at `ssh://[user@]host[:port][/socket]`; raise NoWayError.

    The connection ends with this process, whatever ends it: it lives as long as the remote `cat` has an input.
    """
    folder = Path(tempfile.mkdtemp(prefix="testbed-ssh-"))
    local = folder / "engine.sock"
    process = subprocess.Popen(
        [*_command(url, local), "echo ready && exec cat >/dev/null"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    atexit.register(_end, process, folder)
    assert process.stdout is not None
    assert process.stderr is not None
    if "ready\n" not in process.stdout:  # a login script may speak first
        words = process.stderr.read().strip().splitlines() or ["it said nothing"]
        raise NoWayError(f"no engine at {url}: {words[-1]}")
    return local


def _command(url: str, local: Path) -> list[str]:
    parts = urllib.parse.urlsplit(url)
    if not parts.hostname or parts.hostname.startswith("-") or (parts.username or "").startswith("-"):
        raise NoWayError(f"{url} names no host")
    socket = parts.path if parts.path not in {"", "/"} else _ENGINE_SOCKET
    return [
        "ssh", "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_CONNECT_TIMEOUT_S}",
        "-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=15", "-L", f"{local}:{socket}",
        *(["-p", str(parts.port)] if parts.port else []), *(["-l", parts.username] if parts.username else []),
        "--", parts.hostname,
    ]  # fmt: skip


def _end(process: subprocess.Popen[str], folder: Path) -> None:
    process.terminate()
    process.wait()
    shutil.rmtree(folder, ignore_errors=True)

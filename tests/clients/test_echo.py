# SPDX-License-Identifier: Apache-2.0
"""The floor: a raw TCP echo between two processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

from stand import PATIENCE_S, ROOT, Program, free_port


def ask(port: int, count: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "clients.echo", "ask", "127.0.0.1", str(port), str(count), "1"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=PATIENCE_S)


def test_one_server_echoes_to_one_client_after_another(program: Callable[..., Program]) -> None:
    port = free_port()
    program("clients.echo", "serve", str(port))
    for count in (10, 3):
        done = ask(port, count)
        assert (done.returncode, done.stderr) == (0, "")
        round_trips_us = json.loads(done.stdout)
        assert len(round_trips_us) == count
        assert min(round_trips_us) > 0

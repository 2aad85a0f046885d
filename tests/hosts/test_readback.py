# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from hosts import readback

PROGRAM = """
import socket, sys, threading
one = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(sys.argv[2]))
listening = socket.create_server(("127.0.0.1", 0))
threading.Thread(target=sys.stdin.read).start()
print("ready", flush=True)
"""


@pytest.fixture(params=[0, 1])
def connected(request: pytest.FixtureRequest) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A process of two threads with one connection, whose TCP_NODELAY is given, and one socket that only listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        command = [sys.executable, "-c", PROGRAM, str(server.getsockname()[1]), str(request.param)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process, request.param
        process.kill()
        process.communicate()


def test_threads_read_as_the_system_calls_say(connected: tuple[subprocess.Popen[str], int]) -> None:
    process, _ = connected
    os.setpriority(os.PRIO_PROCESS, process.pid, 7)
    cpu = min(os.sched_getaffinity(0))
    os.sched_setaffinity(process.pid, {cpu})
    threads = readback.threads([process.pid])
    assert len(threads) == 2
    assert threads[str(process.pid)] == ["OTHER", 0, 7, str(cpu)]


def test_a_connection_is_asked_for_its_own_option(connected: tuple[subprocess.Popen[str], int]) -> None:
    process, option = connected
    said = readback.nodelay([process.pid])
    if not said and os.geteuid() != 0:
        pytest.skip("another process' sockets are guarded from this user")
    assert said == [option]

# SPDX-License-Identifier: Apache-2.0
"""TCP_NODELAY of another process's connections, asked of the kernel."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from stand import ROOT

from experiments.observer import sockets

CONFINED = ROOT / "experiments" / "placements" / "confined.py"

OPENS_MANY_THINGS = """
import os, socket, sys
address = ("127.0.0.1", int(sys.argv[1]))
connections = {family: socket.create_connection(address) for family in ("plain", "quick")}
connections["quick"].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
listener = socket.create_server(("127.0.0.1", 0))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.connect(address)
pair = socket.socketpair()
unconnected = socket.socket()
file = open("/dev/null")
print(*(connections[name].getsockname()[1] for name in ("plain", "quick")), flush=True)
for line in sys.stdin:
    name, value = line.split()
    if name == "move":
        os.dup2(connections["plain"].fileno(), int(value))
        connections["plain"].close()
    else:
        connections[name].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(value))
    print("done", flush=True)
"""


class Process:
    """Another process, with two connections to us and much that is none."""

    def __init__(self, port: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", OPENS_MANY_THINGS, str(port)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdout is not None
        self.plain, self.quick = (f"127.0.0.1:{each}" for each in self.process.stdout.readline().split())

    def do(self, what: str, value: int) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{what} {value}\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "done\n"

    def seen(self) -> dict[str, bool]:
        """`nodelay` by local address; what is no connection must not appear."""
        try:
            found = sockets.connections(self.process.pid)
        except PermissionError as error:
            pytest.skip(f"looking into another process needs CAP_SYS_PTRACE: {error}")
        assert len(found) == len({each["local"] for each in found})
        return {each["local"]: each["nodelay"] for each in found}


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


@pytest.fixture
def other(server: socket.socket) -> Iterator[Process]:
    started = Process(server.getsockname()[1])
    yield started
    started.process.communicate()


def test_only_its_connections_are_seen_and_each_with_its_own_option(other: Process) -> None:
    assert other.seen() == {other.plain: False, other.quick: True}


def test_a_change_is_seen_both_ways(other: Process) -> None:
    other.do("plain", 1)
    other.do("quick", 0)
    assert other.seen() == {other.plain: True, other.quick: False}


def test_the_peer_is_told(other: Process, server: socket.socket) -> None:
    other.seen()
    assert {each["peer"] for each in sockets.connections(other.process.pid)} == {f"127.0.0.1:{server.getsockname()[1]}"}


def test_a_connection_on_a_descriptor_far_above_the_others_is_seen(other: Process) -> None:
    """A broker's first clients may leave; the last one keeps its number."""
    other.do("move", 500)
    assert other.seen() == {other.plain: False, other.quick: True}


def test_nothing_of_the_other_process_stays_open_here(other: Process) -> None:
    before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208
    other.seen()
    assert sorted(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


def test_a_process_that_is_gone_is_an_error(other: Process) -> None:
    other.process.communicate()
    with pytest.raises(ProcessLookupError):
        sockets.connections(other.process.pid)


def test_a_plain_process_of_the_stand_lets_an_observer_without_privileges_look(server: socket.socket) -> None:
    """Where Yama is on, only a process that allowed it; neither of the two is the other's parent."""
    plain = ["setpriv", "--bounding-set=-sys_ptrace"] if os.geteuid() == 0 else []
    cpu, port = str(min(os.sched_getaffinity(0))), str(server.getsockname()[1])
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    look = [sys.executable, "-m", "experiments.observer"]
    wait = [sys.executable, "-S", str(CONFINED), str(os.getpid()), cpu, sys.executable, "-c", OPENS_MANY_THINGS, port]
    with subprocess.Popen([*plain, *wait], **pipes) as broker, subprocess.Popen([*plain, *look], **pipes) as observer:
        assert broker.stdout is not None
        broker.stdout.readline()
        request = {"do": "prove", "services": {"broker": broker.pid}, "containers": False}
        said, _ = observer.communicate(json.dumps(request) + "\n")
        broker.communicate()
    state = json.loads(said)["services"]["broker"]
    assert sorted(each["nodelay"] for each in state.get("connections", [])) == [False, True], state

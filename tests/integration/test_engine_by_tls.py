# SPDX-License-Identifier: Apache-2.0
"""An engine that listens on TCP with TLS: this machine's own, behind a door with certificates on loopback."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from stand import Runner

from experiments import engine

pytestmark = pytest.mark.engine


@dataclass(frozen=True)
class Door:
    url: str
    certificates: Path
    """`ca.pem`, `cert.pem` and `key.pem`, as `docker context create` and DOCKER_CERT_PATH want them."""


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Door]:
    """As `dockerd --tlsverify` would listen: only who has our authority's certificate comes in."""
    behind = engine.endpoint().url.removeprefix("unix://")
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    client = authority.issue_cert("client.invalid")
    client.cert_chain_pems[0].write_to_path(folder / "cert.pem")
    client.private_key_pem.write_to_path(folder / "key.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_welcome, args=(server, context, behind), daemon=True).start()
        yield Door(f"tcp://127.0.0.1:{server.getsockname()[1]}", folder)


def _welcome(server: socket.socket, context: ssl.SSLContext, behind: str) -> None:
    with contextlib.suppress(OSError):  # the test is over
        while True:
            guest, _ = server.accept()
            threading.Thread(target=_pass_on, args=(guest, context, behind), daemon=True).start()


def _pass_on(guest: socket.socket, context: ssl.SSLContext, behind: str) -> None:
    """Both ways, and either way may end first: `docker attach` closes its input and reads on."""
    with (
        contextlib.suppress(OSError),
        socket.socket(socket.AF_UNIX) as inside,
        context.wrap_socket(guest, server_side=True) as outside,
    ):
        inside.connect(behind)
        open_ends: list[socket.socket] = [outside, inside]
        while inside in open_ends:
            ready = [outside] if outside in open_ends and outside.pending() else select.select(open_ends, [], [])[0]
            for end in ready:
                data = end.recv(65536)
                if data:
                    (inside if end is outside else outside).sendall(data)
                    continue
                open_ends.remove(end)
                if end is outside:
                    inside.shutdown(socket.SHUT_WR)


def test_a_run_through_a_context_with_certificates_is_complete(door: Door, runner: Runner, tmp_path: Path) -> None:
    material = ",".join(f"{name}={door.certificates / name}.pem" for name in ("ca", "cert", "key"))
    chosen = {"DOCKER_CONFIG": str(tmp_path / "docker"), "DOCKER_CONTEXT": "far"}
    command = ["docker", "context", "create", "far", "--docker", f"host={door.url},{material}"]
    subprocess.run(command, check=True, env=os.environ | {"DOCKER_CONFIG": chosen["DOCKER_CONFIG"]})
    swaps = ("INTERVALS=20", "QOS=1", "MESSAGES=10", "REPETITIONS=1", "TIMEOUT_MS=3000")
    # As on a host behind an inspecting proxy, whose authorities are not the engine's.
    code, said = runner.run("run", "1", "PLACEMENT=docker", *swaps, **chosen, REQUESTS_CA_BUNDLE="/dev/null")
    assert code == 0, said
    facts = runner.facts()
    assert (facts["status"], facts["engine"]["reached_by"]) == ("complete", "tcp")
    assert facts["repetitions"][0]["counts"]["ok"] == 10


def test_the_variables_of_the_docker_command_lead_there_too(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    here = engine.connect().info()["ID"]
    monkeypatch.setenv("DOCKER_HOST", door.url)
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(door.certificates))
    assert engine.lacking() is None
    assert engine.connect().info()["ID"] == here


def test_who_has_no_certificate_is_refused_and_no_plain_processes_take_its_place(
    door: Door, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", door.url)
    monkeypatch.delenv("DOCKER_TLS_VERIFY", raising=False)
    monkeypatch.delenv("DOCKER_CERT_PATH", raising=False)
    lack = engine.lacking()
    assert lack is not None
    assert not lack.absent
    assert lack.reason.startswith(f"no container engine answers at {door.url} (")
    monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
    monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
    lack = engine.lacking()
    assert lack is not None
    assert not lack.absent
    assert lack.reason == f"no certificates for the engine: open {tmp_path}/ca.pem: no such file or directory"

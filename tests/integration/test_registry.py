# SPDX-License-Identifier: Apache-2.0
"""Published images: from a registry on loopback that answers, that hangs, that serves another architecture."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from stand import eventually

from experiments import brokers, engine, images, published
from experiments.errors import BadInputError

REGISTRY = shutil.which("docker-registry")

pytestmark = pytest.mark.engine

CONFIGURATION = """
version: 0.1
storage: {{filesystem: {{rootdirectory: {folder}/images}}}}
http: {{addr: 127.0.0.1:{port}}}
"""


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test knows which registries were silent in another."""
    monkeypatch.setattr(published, "_SILENT", set())


@pytest.fixture(scope="module")
def client() -> docker.DockerClient:
    return engine.connect()


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[str]:
    """Debian's docker-registry, empty."""
    if REGISTRY is None:
        pytest.skip("docker-registry is not installed")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    (tmp_path / "registry.yml").write_text(CONFIGURATION.format(folder=tmp_path, port=port))
    server = subprocess.Popen([REGISTRY, "serve", tmp_path / "registry.yml"], stderr=subprocess.DEVNULL)
    eventually(lambda: _listens(port), "the registry")
    yield f"127.0.0.1:{port}"
    server.terminate()
    server.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def publish(client: docker.DockerClient, reference: str, architecture: str, folder: Path) -> None:
    """Push an image that holds one file, and forget it here."""
    (folder / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    platform = ["--platform", f"linux/{architecture}"]
    command = ["docker", "build", "--quiet", *platform, "--tag", reference, str(folder)]
    subprocess.run(command, check=True, capture_output=True)
    subprocess.run(["docker", "push", "--quiet", reference], check=True, capture_output=True)
    client.images.remove(reference)


def test_an_image_of_a_registry_that_answers_is_pulled_and_known_by_its_digest(
    client: docker.DockerClient, registry: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reference = f"{registry}/eclipse-mosquitto:2.0.22"
    publish(client, reference, client.version()["Arch"], tmp_path)
    monkeypatch.setenv("BROKER_IMAGE", reference)
    try:
        broker = images._broker(client, images.Base("testbed/base:trixie", "testbed/base:trixie", "debian"))
        assert broker.origin == "registry"
        assert broker.digest is not None
        assert broker.digest.startswith(f"{registry}/eclipse-mosquitto@sha256:")
        assert broker.argument == broker.digest, "what is built on is exactly what is recorded"
    finally:
        client.images.remove(reference)


def test_an_image_for_another_architecture_is_not_used_and_said_in_a_line(
    client: docker.DockerClient, registry: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ours = client.version()["Arch"]
    other = "arm64" if ours == "amd64" else "amd64"
    reference = f"{registry}/eclipse-mosquitto:2.0.22"
    publish(client, reference, other, tmp_path)
    try:
        assert published.obtain(client, reference) is None
        said = capsys.readouterr().out
        assert said == f"testbed: {reference} is built for {other}, this engine runs {ours}: not used\n"
    finally:
        client.images.remove(reference, force=True)


def test_an_image_that_a_registry_does_not_have_is_none_and_the_registry_is_asked_again(
    client: docker.DockerClient, registry: str
) -> None:
    assert published.obtain(client, f"{registry}/no-such:1") is None
    assert set() == published._SILENT


def test_a_registry_that_hangs_costs_its_patience_once(
    client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(published, "PATIENCE_S", 2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = f"127.0.0.1:{silent.getsockname()[1]}"
        assert published.obtain(client, f"{where}/debian:trixie-slim") is None
        began_s = time.monotonic()
        assert published.obtain(client, f"{where}/eclipse-mosquitto:2.0.22") is None
        assert time.monotonic() - began_s < published.PATIENCE_S, "not asked again"
    assert capsys.readouterr().out == f"testbed: {where} said nothing for 2 s; not asked again in this run\n"


def test_what_the_user_named_is_refused_rather_than_replaced(
    client: docker.DockerClient, registry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKER_IMAGE", f"{registry}/mine:1")
    with pytest.raises(BadInputError, match=r"BROKER_IMAGE=.*: no registry gives it"):
        images._broker(client, images.Base("testbed/base:trixie", "testbed/base:trixie", "debian"))


def test_a_broker_of_an_older_bundle_gets_the_present_configurations(client: docker.DockerClient) -> None:
    built = images.ensure(client)
    current = str(client.images.get(images.BROKER).id)
    assert images.with_configurations(client, current) == current
    bare = str(client.images.get(built.base.argument).id)
    layered = images.with_configurations(client, bare)
    said = client.containers.run(layered, ["/mosquitto/config"], entrypoint="ls", remove=True, network_mode="none")
    ours = brokers.parse("mosquitto").folder.glob("*.conf")
    assert said.decode().split() == sorted(file.name for file in ours)
    client.images.remove(f"{images.BROKER}:pinned")
    client.images.remove(f"{images.BROKER}-base:pinned")

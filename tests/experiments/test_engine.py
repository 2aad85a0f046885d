# SPDX-License-Identifier: Apache-2.0
"""Which engine is used, and how one that cannot be used is told from none."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from stand import ROOT

from experiments import cli, engine
from experiments.errors import BadInputError, TestbedError
from experiments.variables import Settings

UNPRIVILEGED = """
import os
from experiments import engine
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(engine.lacking())
"""


@pytest.fixture
def closed_socket() -> Iterator[Path]:
    """An engine's socket as someone outside group docker sees it."""
    folder = Path(tempfile.mkdtemp())  # tmp_path is closed to others as a whole
    folder.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "docker.sock"))
        server.listen()
        (folder / "docker.sock").chmod(0)
        yield folder / "docker.sock"
    shutil.rmtree(folder)


def test_no_permission_is_told_from_no_engine(closed_socket: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", UNPRIVILEGED], cwd=ROOT, capture_output=True, text=True, check=True,
        env=os.environ | {"DOCKER_HOST": f"unix://{closed_socket}"},
    )  # fmt: skip
    assert "the engine is there but you may not use it" in done.stdout
    assert "sudo usermod -aG docker $USER, then log in again" in done.stdout
    assert "absent=False" in done.stdout


def test_no_engine_is_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent.sock")
    lack = engine.lacking()
    assert lack is not None
    assert (lack.reason, lack.absent) == ("no container engine answers", True)


@pytest.mark.parametrize("command", ["run", "firmware", "clean"])
def test_an_engine_that_may_not_be_used_is_not_passed_over(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "lacking", lambda: engine.Lack(engine.NO_PERMISSION, engine.JOIN_GROUP))
    with pytest.raises(TestbedError, match=r"the engine is there but you may not use it.* join group docker"):
        {"run": lambda: cli.run("0"), "firmware": cli.firmware, "clean": cli._clean}[command]()


def test_plain_processes_need_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "lacking", lambda: engine.Lack(engine.NO_PERMISSION, engine.JOIN_GROUP))
    assert cli._placement(Settings(placement="host"))[0] == "host"


def test_containers_there_are_not_compared_with_processes_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "is_far", lambda: True)
    cli._require_one_machine({"docker"})
    with pytest.raises(BadInputError, match="would compare two machines"):
        cli._require_one_machine({"docker", "host"})


DOCKER = {"Version": "26.1.5", "Components": [{"Name": "Engine"}, {"Name": "containerd"}, {"Name": "runc"}]}
PODMAN = {"Version": "5.4.2", "Components": [{"Name": "Podman Engine", "Version": "5.4.2"}, {"Name": "Conmon"}]}


@pytest.mark.parametrize(
    ("version", "options", "said"),
    [
        (DOCKER, ["name=seccomp,profile=builtin"], None),
        (DOCKER, None, None),
        (DOCKER, ["name=seccomp,profile=builtin", "name=rootless"], "rootless"),
        (PODMAN, ["name=seccomp"], "Podman"),
    ],
)
def test_an_engine_without_our_proofs_is_refused(
    version: dict[str, object], options: list[str] | None, said: str | None
) -> None:
    lack = engine.unsuitable(version, {"SecurityOptions": options})
    assert lack is None if said is None else lack is not None and said in lack.reason and not lack.absent


@pytest.mark.parametrize(
    ("compose", "buildx", "said"),
    [
        ("2.26.1-4", "0.13.1", None),
        ("v2.20.0", "v0.11", None),
        ("5.0.1", "0.30", None),
        ("2.17.2", "0.13.1", "Compose 2.17.2 is older than 2.20"),
        (None, "0.13.1", "no Compose v2"),
        ("2.26.1", None, "no Buildx"),
    ],
)
def test_the_docker_command_needs_compose_and_buildx(compose: str | None, buildx: str | None, said: str | None) -> None:
    lack = engine.unsuitable_client(compose, buildx)
    assert lack is None if said is None else lack is not None and said in lack.reason


def test_what_listens_but_does_not_answer_as_an_engine_is_not_taken_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rootless Engine 26 crashes as it is asked for its version, and closes the connection."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "docker.sock"))
        server.listen()

        def close_twice() -> None:
            for _ in range(2):
                server.accept()[0].close()

        closing = threading.Thread(target=close_twice, daemon=True)
        closing.start()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
        monkeypatch.setattr(engine, "_said", lambda _command: None)
        lack = engine.lacking()
    assert lack is not None
    assert not lack.absent
    assert "does not answer as one" in lack.reason


def test_an_engine_that_is_too_slow_to_answer_is_said_in_words_a_user_can_act_on(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "docker.sock"))
        server.listen()
        client = docker.DockerClient(base_url=f"unix://{tmp_path}/docker.sock", version="1.45", timeout=1)
        with pytest.raises(OSError, match=r"^the engine did not answer in time; is its machine overloaded\?"):
            engine.patient(client).ping()
    with pytest.raises(OSError, match="No such file"):
        engine.patient(docker.DockerClient(base_url=f"unix://{tmp_path}/none.sock", version="1.45")).ping()

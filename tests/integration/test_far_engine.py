# SPDX-License-Identifier: Apache-2.0
"""An engine behind SSH or a Docker context: this machine's own, through an SSH server on loopback."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand import Runner, eventually

from experiments import cli, engine, families
from experiments.errors import BadInputError
from experiments.variables import Settings

SSHD = "/usr/sbin/sshd"

pytestmark = [
    pytest.mark.engine,
    pytest.mark.skipif(not (Path(SSHD).exists() and os.getuid() == 0), reason="needs root and openssh-server"),
]

CONFIGURATION = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/key.pub
PidFile none
StrictModes no
PermitRootLogin yes
PasswordAuthentication no
"""


@pytest.fixture(scope="module")
def far_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where the server is; `ssh` on PATH knows its key."""
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    (folder / "sshd_config").write_text(CONFIGURATION.format(port=port, folder=folder))
    (folder / "bin").mkdir()
    ssh = folder / "bin" / "ssh"
    options = f"-F none -i {folder}/key -o UserKnownHostsFile={folder}/known -o StrictHostKeyChecking=accept-new"
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} {options} "$@"\n')
    ssh.chmod(0o755)
    Path("/run/sshd").mkdir(exist_ok=True)
    server = subprocess.Popen([SSHD, "-D", "-f", folder / "sshd_config"], stderr=subprocess.DEVNULL)
    path = os.environ["PATH"]
    os.environ["PATH"] = f"{ssh.parent}:{path}"
    eventually(lambda: _listens(port), "the SSH server")
    yield f"ssh://root@127.0.0.1:{port}"
    os.environ["PATH"] = path
    server.terminate()
    server.wait()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_ssh_leads_to_the_engine_that_is_there(far_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    here = engine.connect().info()["ID"]
    monkeypatch.setenv("DOCKER_HOST", far_url)
    assert engine.lacking() is None
    assert engine.connect().info()["ID"] == here
    said = subprocess.run(
        ["docker", "info", "--format", "{{.ID}}"], env=engine.environment(), capture_output=True, text=True, check=True
    )
    assert said.stdout.strip() == here
    assert engine.is_far()
    assert engine.endpoint().transport == "ssh"


def test_a_docker_context_is_honoured_as_the_command_does(
    far_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))  # contexts are kept there
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    subprocess.run(["docker", "context", "create", "far", "--docker", f"host={far_url}"], check=True)
    assert engine.endpoint().transport == "unix"
    monkeypatch.setenv("DOCKER_CONTEXT", "far")
    assert engine.endpoint().url == far_url
    assert engine.lacking() is None
    monkeypatch.setenv("DOCKER_CONTEXT", "no-such")
    lack = engine.lacking()
    assert lack is not None
    assert lack.reason == "there is no Docker context 'no-such'"


def test_a_far_engine_that_cannot_be_reached_is_refused_and_not_replaced_by_plain_processes(
    far_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", far_url.rpartition(":")[0] + ":1")
    lack = engine.lacking()
    assert lack is not None
    assert "Connection refused" in lack.reason
    assert cli._placement(Settings())[0] == "docker"
    with pytest.raises(BadInputError, match="PLACEMENT=docker: no engine at ssh://"):
        cli._stand(families.named("control"), "docker")


def test_a_run_over_ssh_is_complete_and_describes_the_machine_there(far_url: str, runner: Runner) -> None:
    swaps = ("INTERVALS=20", "QOS=1", "MESSAGES=10", "REPETITIONS=1", "TIMEOUT_MS=3000")
    code, said = runner.run("run", "1", "PLACEMENT=docker", *swaps, DOCKER_HOST=far_url)
    assert code == 0, said
    facts = runner.facts()
    assert facts["status"] == "complete"
    assert facts["engine"]["reached_by"] == "ssh"
    assert facts["host"]["kernel"] == os.uname().release
    assert facts["repetitions"][0]["counts"]["ok"] == 10

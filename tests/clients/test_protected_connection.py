# SPDX-License-Identifier: Apache-2.0
"""What a client demands of the broker, and what it then says of its connection, against real brokers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand import PATIENCE_S, RunningBroker

from clients import security
from clients.connection import Connection, ConnectionLostError
from clients.way import Way
from experiments import credentials
from experiments.brokers.mosquitto import Mosquitto
from experiments.credentials import Protection
from experiments.errors import StandError


@pytest.fixture(scope="module")
def open_folder() -> Iterator[Path]:
    """One that the user can come to whom Mosquitto becomes where root runs us; pytest's own are closed."""
    with tempfile.TemporaryDirectory(prefix=credentials.PREFIX, dir="/tmp") as folder:
        Path(folder).chmod(0o711)
        yield Path(folder)


@pytest.fixture(scope="module")
def issued(open_folder: Path) -> Path:
    return credentials.issue(open_folder / "ours", ("127.0.0.1",))


def way(port: int, kind: str, folder: Path) -> Way:
    return Way("127.0.0.1", port, credentials=security.read(kind, folder / "client"))


def connection(port: int, kind: str, folder: Path) -> Connection:
    return Connection(way(port, kind, folder), client_id="test", on_message=lambda _message: None)


@pytest.fixture(params=["password", "tls"])
def guarded(request: pytest.FixtureRequest, issued: Path, tmp_path: Path) -> Iterator[tuple[str, RunningBroker]]:
    broker = RunningBroker(tmp_path, protection=Protection(request.param, issued))
    yield request.param, broker
    broker.kill()


def test_the_connection_says_what_it_is_protected_by(guarded: tuple[str, RunningBroker], issued: Path) -> None:
    kind, broker = guarded
    client = connection(broker.port, kind, issued)
    client.open(timeout_s=PATIENCE_S)
    protection = client.protection()
    assert protection["user"] == security.USER
    if kind == "password":
        assert (protection["tls"], protection["cipher"], protection["server"]) == (None, None, None)
    else:
        assert protection["tls"] == "TLSv1.3"
        assert protection["cipher"]
        assert protection["server"] == credentials.fingerprint(issued)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_messages_arrive_through_it_whole(guarded: tuple[str, RunningBroker], issued: Path, qos: int) -> None:
    kind, broker = guarded
    messages: list[bytes] = []
    client = Connection(
        way(broker.port, kind, issued), client_id="test",
        on_message=lambda message: messages.append(bytes(message.payload)),
    )  # fmt: skip
    client.open(timeout_s=PATIENCE_S)
    client.subscribe("testbed/x", qos, timeout_s=PATIENCE_S)
    payloads = [bytes([number]) * 1000 for number in range(100)]  # several a TLS record, and several records a read
    for payload in payloads:
        assert client.publish("testbed/x", payload, qos)
    client._wait_until(lambda: len(messages) == len(payloads), PATIENCE_S, "messages missing")
    assert messages == payloads


def test_nobody_gets_in_without_the_password(guarded: tuple[str, RunningBroker], issued: Path, tmp_path: Path) -> None:
    kind, broker = guarded
    with pytest.raises((ConnectionLostError, OSError)):
        connection(broker.port, "none", issued).open(timeout_s=2.0)
    wrong = tmp_path / "wrong" / "client"
    wrong.mkdir(parents=True)
    (wrong / "password").write_text("guessed")
    (wrong / "ca.pem").write_bytes((issued / "client" / "ca.pem").read_bytes())
    with pytest.raises((ConnectionLostError, OSError)):
        connection(broker.port, kind, wrong.parent).open(timeout_s=2.0)


def test_a_broker_with_anothers_certificate_is_not_talked_to(issued: Path, open_folder: Path, tmp_path: Path) -> None:
    strangers = credentials.issue(open_folder / "stranger", ("127.0.0.1",))
    broker = RunningBroker(tmp_path, protection=Protection("tls", strangers))
    try:
        with pytest.raises(OSError, match="certificate"):
            connection(broker.port, "tls", issued).open(timeout_s=PATIENCE_S)
    finally:
        broker.kill()


def test_what_is_issued_is_for_its_owner_only(tmp_path: Path) -> None:
    issued = credentials.issue(tmp_path / "credentials", ("127.0.0.1",))
    files = sorted(path.relative_to(issued).as_posix() for path in issued.rglob("*") if path.is_file())
    assert files == ["broker/ca.pem", "broker/passwords", "broker/server.key", "broker/server.pem", "client/ca.pem",
                     "client/password"]  # fmt: skip
    assert {path.stat().st_mode & 0o077 for path in issued.rglob("*")} == {0}
    password = (issued / "client" / "password").read_text().strip()
    assert password not in (issued / "broker" / "passwords").read_text()
    assert len(password) >= 32


def test_a_folder_closed_to_the_user_mosquitto_becomes_is_said_beforehand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    tmp_path.chmod(0o700)
    protection = Protection("tls", credentials.issue(tmp_path / "run", ("127.0.0.1",)))
    with pytest.raises(StandError, match=r"from this run's credentials; say TMPDIR=/tmp, or run as an ordinary user"):
        Mosquitto().host_command(1883, nodelay=True, folder=tmp_path, protection=protection)

# SPDX-License-Identifier: Apache-2.0
"""Kinds that register themselves, the boards and brokers there are, and the facts about the host."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand import Client, RunningBroker

from experiments import boards, brokers, host
from experiments.brokers import Setup
from experiments.errors import BadInputError
from experiments.registry import Registry


def test_one_more_file_is_one_more_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "kinds_of_a_test"
    package.mkdir()
    (package / "__init__.py").write_text("from experiments.registry import Registry\nREGISTRY = Registry(__name__)\n")
    for name in ("second", "first"):
        (package / f"{name}.py").write_text(f"from kinds_of_a_test import REGISTRY\nREGISTRY.add({name!r}, {name!r})\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry: Registry[str] = __import__("kinds_of_a_test").REGISTRY
    assert registry.all() == {"first": "first", "second": "second"}
    assert list(registry.all()) == ["first", "second"]


def test_the_boards_are_those_of_the_help() -> None:
    assert set(boards.REGISTRY.all()) == {"model", "none", "simavr", "usb"}
    assert str(boards.parse("model")) == "model"


@pytest.fixture
def serial_port() -> Iterator[str]:
    master, slave = os.openpty()
    yield os.ttyname(slave)
    os.close(master)
    os.close(slave)


def test_a_usb_board_is_passed_to_the_pi_and_its_group_with_it(serial_port: str) -> None:
    pi = boards.parse(f"usb:{serial_port}").compose()["pi"]
    assert pi["devices"] == [f"{serial_port}:/dev/board"]
    assert pi["environment"] == {"SERIAL_PORT": "/dev/board"}
    assert pi["group_add"] == [str(Path(serial_port).stat().st_gid)]


def _present(*paths: str) -> list[str]:
    return [path for path in paths if Path(path).exists()]


@pytest.mark.parametrize(
    "path",
    _present(
        "/dev/null", "/dev/zero", "/dev/mem", "/dev/kvm", "/dev/vda", "/dev/sda", "/dev/tty", "/dev/console",
        "/dev/ptmx", "/dev/shm", "/dev/../etc/passwd", "/dev/fd/0", "/dev/pts",
    ),
)  # fmt: skip
def test_what_is_no_serial_port_is_never_handed_over(path: str) -> None:
    with pytest.raises(BadInputError, match="is no serial port; `make doctor` lists") as caught:
        boards.parse(f"usb:{path}")
    assert str(caught.value).startswith(f"DEVICE=usb:{path}: ")


def test_a_board_that_does_not_exist_is_refused() -> None:
    with pytest.raises(BadInputError, match="DEVICE=esp32: allowed are model, none, simavr, usb"):
        boards.parse("esp32")


ON_HOSTS = [
    kind for kind, made in brokers.REGISTRY.all().items() if made.host_command is not brokers.Broker.host_command
]


@pytest.mark.parametrize("kind", ON_HOSTS)
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_every_broker_of_this_host_serves_on_loopback(kind: str, qos: int, tmp_path: Path) -> None:
    broker = brokers.parse(kind)
    if not broker.available_on_host():
        pytest.skip(f"{kind} is not installed")
    assert broker.version_on_host()[0].isdigit()
    running = RunningBroker(tmp_path, broker)
    try:
        client = Client(running.port)
        assert client.subscribe("testbed/x", qos) == qos
        client.connection.publish("testbed/x", b"hello", qos)
        (message,) = client.receive(1)
        assert (message.payload, message.qos) == (b"hello", qos)
    finally:
        running.kill()


@pytest.mark.parametrize(("nodelay", "said"), [(True, "set_tcp_nodelay true"), (False, "set_tcp_nodelay false")])
def test_mosquitto_gets_the_tcp_option_and_listens_on_loopback_only(tmp_path: Path, nodelay: bool, said: str) -> None:
    command = brokers.parse("mosquitto").host_command(4711, nodelay=nodelay, folder=tmp_path)
    configuration = Path(command[-1]).read_text()
    assert said in configuration
    assert "listener 4711 127.0.0.1\n" in configuration


def test_a_broker_without_a_program_for_this_host_says_where_it_runs() -> None:
    assert set(ON_HOSTS) == {"mosquitto", "amqtt"}
    with pytest.raises(BadInputError, match=r"BROKER=rabbitmq: it runs in containers only, .*; say PLACEMENT=docker"):
        brokers.parse("rabbitmq").check_host(Setup())


@pytest.mark.parametrize("kind", sorted(brokers.REGISTRY.all()))
def test_a_broker_in_a_container_names_its_configuration_on_its_command_line_and_holds_no_secret(kind: str) -> None:
    broker = brokers.parse(kind)
    assert "nodelay" in broker.tcp
    for tcp in broker.tcp:
        wish, file = broker.compose(Setup(tcp)), broker.file(Setup(tcp))
        assert file in wish["command"]
        assert broker.configuration(Setup(tcp)).strip()
        assert (broker.folder / Path(file).name).exists()
    for setup, variable in ((Setup(security="tls"), "SECURITY"), (Setup(stores=True), "SESSION")):
        if kind == "mosquitto":
            broker.check_container(setup)
            continue
        with pytest.raises(BadInputError, match=f"{variable}=.*; BROKER=mosquitto is"):
            broker.check_container(setup)


@pytest.mark.parametrize(("kind", "able"), [("mosquitto", {0, 1, 2}), ("rabbitmq", {0, 1}), ("apollo", {0})])
def test_a_qos_that_a_broker_delivers_otherwise_is_refused(kind: str, able: set[int]) -> None:
    for qos in range(3):
        if qos in able:
            brokers.parse(kind).check_qos(qos)
            continue
        with pytest.raises(BadInputError, match=f"QOS={qos}: {kind} delivers that at {max(able)}; it can "):
            brokers.parse(kind).check_qos(qos)


def test_a_machine_without_mosquitto_gets_amqtt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers.REGISTRY.all()["mosquitto"], "available_on_host", lambda _self: False)
    assert brokers.on_this_host().kind == "amqtt"


def test_the_host_is_described_without_giving_its_name_away() -> None:
    facts = host.facts()
    assert json.loads(json.dumps(facts)) == facts
    assert platform.node() not in json.dumps(facts)
    assert facts["kernel"] == platform.release()
    assert facts["cpus"] >= 1
    assert facts["memory_bytes"] > 2**20
    assert facts["cgroup"] in {"v1", "v2", "hybrid", "none"}
    assert facts["rt_group_sched"] in {True, False, None}


def test_the_revision_is_that_of_the_checkout() -> None:
    root = Path(host.__file__).parents[1]
    git = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=False)
    found = host.git()
    assert (found and found["revision"]) == (git.stdout.strip() or None)


def test_the_runner_never_imports_the_analysis() -> None:
    program = "import experiments.cli, sys; print([name for name in sys.modules if name.startswith('analysis')])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                          cwd=Path(host.__file__).parents[1])  # fmt: skip
    assert done.stdout == "[]\n"

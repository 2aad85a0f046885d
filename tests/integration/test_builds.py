# SPDX-License-Identifier: Apache-2.0
"""Images are built where one would change, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import brokers, building, engine, images

pytestmark = pytest.mark.engine


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """Every docker command that is run, and no memory of earlier builds."""
    commands: list[list[str]] = []
    really = building.run

    def run(command: list[str], environment: dict[str, str], given: str = "") -> str:
        commands.append(command)
        return really(command, environment, given)

    monkeypatch.setattr(building, "run", run)
    monkeypatch.setattr(building, "_REMEMBERED", tmp_path / "build" / "image-builds.json")
    return commands


def builds(commands: list[list[str]]) -> int:
    return sum("build" in command for command in commands)


def test_what_was_built_of_the_same_is_not_built_again(asked: list[list[str]]) -> None:
    client = engine.connect()
    first = images.ensure(client)
    assert builds(asked) == 1
    assert images.ensure(client) == first
    assert builds(asked) == 1


def test_an_image_that_another_checkout_put_in_its_place_is_built_again(asked: list[list[str]]) -> None:
    client = engine.connect()
    images.ensure(client)
    observer = client.images.get(images.OBSERVER)
    client.images.get(images.BROKER).tag(images.OBSERVER)
    images.ensure(client)
    assert builds(asked) == 2
    assert client.images.get(images.OBSERVER).id == observer.id


def test_an_image_that_is_gone_is_built_again(asked: list[list[str]]) -> None:
    client = engine.connect()
    images.ensure(client)
    client.images.remove("testbed/stressor")
    images.ensure(client)
    assert builds(asked) == 2
    assert client.images.get("testbed/stressor")


def test_another_broker_is_built_once_and_makes_nobody_forget_the_usual_one(asked: list[list[str]]) -> None:
    client = engine.connect()
    other = [brokers.parse("amqtt")]
    images.ensure(client)
    assert set(images.ensure(client, other).references) >= {"broker-amqtt", "pi"}
    assert builds(asked) == 2
    images.ensure(client)
    images.ensure(client, other)
    assert builds(asked) == 2


def test_what_is_built_for_the_first_time_is_said_for_it_takes_minutes(
    asked: list[list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    client = engine.connect()
    images.ensure(client)
    client.images.remove("testbed/stressor")
    capsys.readouterr()
    images.ensure(client)
    assert builds(asked) == 2
    assert "testbed: building testbed/stressor (once; a minute or two each)\n" in capsys.readouterr().out

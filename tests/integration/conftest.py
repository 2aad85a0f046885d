# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from containers import docker
from stand import ROOT, Runner


@pytest.fixture(scope="session")
def by_hand_compose() -> dict[str, Any]:
    """docker-compose.yml with every profile, as Compose reads it."""
    said = docker("compose", "--file", str(ROOT / "docker-compose.yml"), "--profile", "*", "config", "--format", "json")
    config: dict[str, Any] = json.loads(said)
    return config


@pytest.fixture(scope="module")
def shared_runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Runner]:
    runner = Runner(tmp_path_factory.mktemp("shared"))
    yield runner
    runner.stop()

# SPDX-License-Identifier: Apache-2.0
"""How we talk with containers."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import engine
from experiments.placements.docker import _AttachedChannel

pytestmark = pytest.mark.engine


def test_a_closed_channel_leaves_no_response_for_python_3_13_to_complain_of(tmp_path: Path) -> None:
    image = "testbed/observer"
    container = engine.connect().containers.create(image, network_mode="none", stdin_open=True)
    try:
        channel = _AttachedChannel("observer", container, tmp_path / "log")
        container.start()
        assert channel.ask(do="stop")["rows"] == []
    finally:
        container.remove(force=True)
    response = channel._response
    assert response is not None
    assert not response.raw.closed
    channel.close()
    assert response.raw.closed

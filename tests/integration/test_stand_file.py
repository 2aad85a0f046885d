# SPDX-License-Identifier: Apache-2.0
"""docker-compose.yml as Compose reads it: valid, closed to the outside, and with no more rights than it takes."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from stand import ROOT

pytestmark = pytest.mark.engine

CAPABILITIES = {"observer": ["SYS_NICE", "SYS_PTRACE"], "capture": ["NET_RAW"]}
"""What sets and reads knobs, and what captures packets, cannot do without; nothing else has any."""


def test_the_stand_is_valid_for_use_by_hand() -> None:
    command = ["docker", "compose", "-f", "docker-compose.yml", "config", "-q"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_port_is_published_beyond_loopback(by_hand_compose: dict[str, Any]) -> None:
    for service in by_hand_compose["services"].values():
        assert all(port.get("host_ip") == "127.0.0.1" for port in service.get("ports", []))
    assert all(network["internal"] for network in by_hand_compose["networks"].values())


def test_no_service_can_write_its_image_or_gain_rights(by_hand_compose: dict[str, Any]) -> None:
    assert {"broker", "control-loop", "pi", "board"} <= set(by_hand_compose["services"])
    for name, service in by_hand_compose["services"].items():
        assert service["read_only"], name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.get("privileged"), name
        assert service.get("cap_add", []) == CAPABILITIES.get(name, []), name
        assert service.get("pid") != "host" or name == "observer", name
        assert service["pids_limit"] <= 256, name


def test_everything_carries_our_label(by_hand_compose: dict[str, Any]) -> None:
    kinds = [by_hand_compose[kind] for kind in ("services", "networks", "volumes")]
    assert all("testbed.run" in each["labels"] for kind in kinds for each in kind.values())

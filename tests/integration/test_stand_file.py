# SPDX-License-Identifier: Apache-2.0
"""docker-compose.yml as Compose reads it: valid, closed to the outside, and with no more rights than it takes."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from stand import ROOT

pytestmark = pytest.mark.engine

CAPABILITIES = {"observer": ["SYS_PTRACE"], "capture": ["NET_RAW"], "link": ["NET_ADMIN"]}
"""What reads the others' sockets, captures packets, or cuts the Pi off cannot do without; nothing else has any."""


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


def test_nothing_is_mounted_from_the_checkout_which_another_machine_would_not_have(
    by_hand_compose: dict[str, Any],
) -> None:
    mounts = {
        (name, mount["source"]) for name, service in by_hand_compose["services"].items()
        for mount in service.get("volumes", []) if mount["type"] == "bind"
    }  # fmt: skip
    assert mounts == {("observer", "/sys/fs/cgroup")}
    assert [mount["read_only"] for mount in by_hand_compose["services"]["observer"]["volumes"]] == [True]


def test_every_service_has_a_memory_limit(by_hand_compose: dict[str, Any]) -> None:
    for name, service in by_hand_compose["services"].items():
        assert 0 < int(service["mem_limit"]) <= 2 * 2**30, name


def test_waiting_by_hand_means_that_the_stand_answers(by_hand_compose: dict[str, Any]) -> None:
    brought_up = {name for name, service in by_hand_compose["services"].items() if not service.get("profiles")}
    assert brought_up == {"broker", "pi", "board"}
    assert all("healthcheck" in by_hand_compose["services"][name] for name in brought_up)


def test_everything_carries_our_label(by_hand_compose: dict[str, Any]) -> None:
    kinds = [by_hand_compose[kind] for kind in ("services", "networks", "volumes")]
    assert all("testbed.run" in each["labels"] for kind in kinds for each in kind.values())

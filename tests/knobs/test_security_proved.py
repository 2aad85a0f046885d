# SPDX-License-Identifier: Apache-2.0
"""SECURITY: what proves it, what a repetition is refused for, and that no secret leaves the run."""

from __future__ import annotations

import json
import tarfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from stand import Runner, check_bundle

from analysis.showing.verify import verify
from experiments import credentials, plan, replay
from experiments.brokers.mosquitto import protected
from experiments.credentials import Protection
from experiments.errors import BadInputError
from experiments.families.control import outcome
from experiments.placements import vault
from experiments.variables import Settings

PLAIN = {"user": None, "tls": None, "cipher": None, "server": None}
NAMED = PLAIN | {"user": "testbed"}
PRIVATE = NAMED | {"tls": "TLSv1.3", "cipher": "TLS_AES_256_GCM_SHA384", "server": "ab"}


def verdicts(asked: str, client: Any, pi: Any, *, strangers: bool) -> dict[str, bool]:
    conditions = plan.of_scenario("1", Settings.parse({"SECURITY": asked}), "0" * 8).cells[0].conditions
    protection = {"control-loop": client, "pi": pi, "broker": {"strangers": strangers}}
    return {entry["service"]: entry["holds"] for entry in outcome.of_security(protection, dict(conditions.knobs))}


@pytest.mark.parametrize(
    ("asked", "client", "strangers"), [("none", PLAIN, True), ("password", NAMED, False), ("tls", PRIVATE, False)]
)
def test_what_was_asked_for_and_is_so_holds(asked: str, client: dict[str, Any], strangers: bool) -> None:
    assert all(verdicts(asked, client, client, strangers=strangers).values())


def test_a_broker_that_lets_strangers_in_does_not_hold() -> None:
    assert verdicts("tls", PRIVATE, PRIVATE, strangers=True) == {"broker": False, "control-loop": True, "pi": True}


def test_a_pi_that_says_nothing_or_speaks_openly_does_not_hold() -> None:
    assert verdicts("tls", PRIVATE, None, strangers=False)["pi"] is False
    assert verdicts("tls", PRIVATE, NAMED, strangers=False) == {"broker": False, "control-loop": True, "pi": False}


def test_protection_that_nobody_asked_for_does_not_hold() -> None:
    assert not any(verdicts("none", PRIVATE, PRIVATE, strangers=False).values())


def test_it_is_part_of_the_cell_and_badly_asked_for_it_is_refused() -> None:
    planned = plan.of_study("security", {}, "0" * 8)
    records = [cell.record(index)["knobs"] for index, cell in enumerate(planned.cells)]
    assert [record["pi"].get("security") for record in records] == [None, "password", "tls"]
    assert [cell.conditions.security for cell in planned.cells] == ["none", "password", "tls"]
    with pytest.raises(BadInputError, match="SECURITY=ssl: allowed are none, password, tls"):
        Settings.parse({"SECURITY": "ssl"})
    with pytest.raises(BadInputError, match="PRIORITY=broker=tls: that is SECURITY=tls"):
        plan.of_scenario("1", Settings.parse({"PRIORITY": "broker=tls"}), "0" * 8)


def test_mosquitto_lets_nobody_in_and_its_configuration_holds_no_secret(tmp_path: Path) -> None:
    issued = credentials.issue(tmp_path, ("broker",))
    text = protected("listener 1883\nallow_anonymous true\n", Protection("tls", issued))
    assert "allow_anonymous true" not in text
    assert "tls_version tlsv1.3" in text
    secrets = [(issued / "client" / "password").read_text(), (issued / "broker" / "server.key").read_text()]
    assert not any(secret in text for secret in secrets)
    assert protected("allow_anonymous true\n", Protection("none", Path())) == "allow_anonymous true\n"


def test_in_containers_each_part_is_for_its_own_reader(tmp_path: Path) -> None:
    issued = credentials.issue(tmp_path, ("broker",))
    (issued / vault.CONFIGURATION).mkdir()
    (issued / vault.CONFIGURATION / "tls-nodelay.conf").write_text("listener 1883\n")
    with tarfile.open(fileobj=BytesIO(vault.archive(issued))) as archive:
        found = {member.name: (member.uid, member.mode) for member in archive}
    assert found["broker/server.key"] == (1883, 0o400)
    assert found["client/password"] == (65534, 0o400)
    assert found["broker"] == (1883, 0o500)
    assert found["configuration/tls-nodelay.conf"] == (0, 0o555)


def test_leftovers_of_a_kill_are_found_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(credentials.tempfile, "gettempdir", lambda: str(tmp_path))
    (tmp_path / "elsewhere").mkdir()
    left = tmp_path / f"{credentials.PREFIX}x"
    credentials.issue(left, ("broker",))
    (tmp_path / f"{credentials.PREFIX}link").symlink_to(tmp_path / "elsewhere")
    credentials.remove_leftovers()
    assert not left.exists()
    assert (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("kind", ["password", "tls"])
def test_a_run_as_plain_processes_is_protected_proved_and_leaves_no_secret(runner: Runner, kind: str) -> None:
    code, said = runner.run(
        "run", "1", "PLACEMENT=host", "REPETITIONS=1", "MESSAGES=20", "INTERVALS=20", f"SECURITY={kind}", "BROKER=amqtt"
    )
    assert code == 0, said
    check_bundle(runner.bundle)
    assert not verify(runner.bundle).findings
    proofs = [p for entry in runner.facts()["repetitions"] for p in entry["proofs"] if p["knob"] == "security"]
    assert {(p["service"], p["observed"]["value"]) for p in proofs} == {
        (service, kind) for service in ("broker", "control-loop", "pi")
    }
    for path in runner.bundle.rglob("*"):
        if path.is_file():
            content = path.read_bytes()
            assert b"PRIVATE KEY" not in content, path
            assert b"$argon2" not in content, path
    assert replay.Recorded.read(runner.bundle).plan("0" * 8).cells[0].conditions.security == kind
    assert json.loads((runner.bundle / "bundle.json").read_text())["status"] == "complete"

# SPDX-License-Identifier: Apache-2.0
"""`FAULT=SERVICE:KIND[:DURATION]`: read, refused where it cannot be, and planned with room to recover in."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments import cli, faults
from experiments.brokers.mosquitto import Mosquitto
from experiments.errors import BadInputError
from experiments.families.control import studies
from experiments.families.control.conditions import ControlConditions
from experiments.families.control.processes import ControlAsProcesses
from experiments.faults import Place, step
from experiments.plan import of_scenario, of_study
from experiments.variables import Settings

LONG = Settings(intervals=(20,), messages=1000, seed=1)


@pytest.mark.parametrize("value", faults.examples())
def test_every_example_reads_as_itself(value: str) -> None:
    assert str(faults.parse(value)) == value


def test_none_is_no_fault() -> None:
    assert faults.parse("none") is None


@pytest.mark.parametrize(
    ("value", "milliseconds", "written"),
    [("broker:freeze:2s", 2000, "2s"), ("broker:freeze:2000ms", 2000, "2s"), ("pi:freeze:1500ms", 1500, "1500ms")],
)
def test_a_duration_is_in_seconds_or_milliseconds(value: str, milliseconds: int, written: str) -> None:
    fault = faults.parse(value)
    assert fault is not None
    assert fault.duration_ms == milliseconds
    assert str(fault).endswith(f":{written}")


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("", "allowed are none, "),
        ("broker", "allowed are none, "),
        ("broker:explode", "allowed are none, "),
        ("board:kill", "allowed are none, "),
        ("kill:broker", "allowed are none, "),
        ("broker:kill:2s", "takes no duration; say FAULT=broker:kill"),
        ("broker:kill:", "takes no duration"),
        ("broker:freeze", "a duration from 1ms to 7200s, e.g. broker:freeze:2s"),
        ("broker:freeze:", "a duration"),
        ("broker:freeze:0s", "a duration"),
        ("broker:freeze:7201s", "a duration"),
        ("broker:freeze:2 s", "a duration"),
        ("broker:freeze:-2s", "a duration"),
        ("broker:freeze:2m", "a duration"),
        ("broker:freeze:٢s", "a duration"),
        ("broker:freeze:" + "9" * 5000 + "s", "a duration"),
    ],
)
def test_what_cannot_be_read_is_said_in_a_line(value: str, why: str) -> None:
    with pytest.raises(BadInputError) as error:
        faults.parse(value)
    assert str(error.value).startswith(f"FAULT={value}"[:150])
    assert why in str(error.value)


@given(st.text(max_size=30) | st.from_regex(r"(broker|pi|board):(kill|freeze|reset)(:[0-9]{0,9}m?s?)?", fullmatch=True))
def test_any_text_is_a_fault_or_bad_input(value: str) -> None:
    try:
        fault = faults.parse(value)
    except BadInputError:
        return
    assert fault is None or faults.parse(str(fault)) == fault


def test_a_fault_is_part_of_a_cells_conditions_and_record() -> None:
    settings = Settings.parse({"INTERVALS": "20,10", "MESSAGES": "1000", "FAULT": "broker:freeze:2s"})
    cells = of_scenario("1", settings, "0123abcd").cells
    assert {str(cell.conditions.fault) for cell in cells} == {"broker:freeze:2s"}
    assert [cell.record(0)["fault_at_ms"] for cell in cells] == [10_000, 5_000], "half-way"
    assert {cell.record(0)["fault"] for cell in cells} == {"broker:freeze:2s"}
    assert {cell.conditions.undisturbed().fault for cell in cells} == {None}, "not while the floor is measured"


def test_the_time_of_the_fault_can_be_set() -> None:
    settings = Settings.parse(
        {"INTERVALS": "20", "MESSAGES": "1000", "FAULT": "broker:freeze:2s", "FAULT_AT_MS": "1500"}
    )
    assert of_scenario("1", settings, "0123abcd").cells[0].fault_at_ms == 1500


@pytest.mark.parametrize(
    ("swaps", "why"),
    [
        ({"FAULT": "broker:freeze:2s", "MESSAGES": "100"}, "FAULT=broker:freeze:2s: a repetition of 100 × 20 ms "),
        ({"FAULT": "broker:freeze:2s", "FAULT_AT_MS": "199"}, "FAULT_AT_MS=199: 10 cycles must come before the fault"),
        ({"FAULT": "broker:freeze:2s", "FAULT_AT_MS": "16001"}, "FAULT=broker:freeze:2s: a repetition of 1000 × 20 ms"),
        ({"FAULT_AT_MS": "500"}, "FAULT_AT_MS=500: there is no fault; say FAULT="),
    ],
)
def test_a_repetition_without_room_for_fault_and_recovery_is_refused(swaps: dict[str, str], why: str) -> None:
    with pytest.raises(BadInputError) as error:
        of_scenario("1", Settings.parse({"INTERVALS": "20", "MESSAGES": "1000"} | swaps), "0123abcd")
    assert str(error.value).startswith(why)


@pytest.mark.parametrize("interval_ms", [1, 7, 20, 100])
@pytest.mark.parametrize("value", faults.examples())
def test_the_remedy_for_a_short_repetition_is_just_long_enough(value: str, interval_ms: int) -> None:
    fault = faults.parse(value)
    assert fault is not None
    with pytest.raises(BadInputError) as error:
        fault.check_length(10 * interval_ms, interval_ms, 20)
    messages = int(str(error.value).rpartition("MESSAGES=")[2])
    fault.check_length(faults.at_ms(interval_ms, messages, None), interval_ms, messages)
    with pytest.raises(BadInputError):
        fault.check_length(faults.at_ms(interval_ms, messages - 20, None), interval_ms, messages - 20)


@pytest.mark.parametrize("value", ["board:reset", "board:silence:1s", "serial:garbage", "serial:unplug:2s"])
def test_a_fault_of_a_board_needs_a_simulated_one(value: str) -> None:
    fault = faults.parse(value)
    assert fault is not None
    for containers in (True, False):
        fault.check(Place(containers, simulated_board=True))
        with pytest.raises(BadInputError, match=r"; say DEVICE=simavr or DEVICE=model"):
            fault.check(Place(containers))


def test_a_clock_that_nobody_may_set_is_not_stepped(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = faults.parse("clock:step:3600s")
    assert fault is not None
    monkeypatch.setattr(step, "may_set_clock", lambda: False)
    with pytest.raises(BadInputError, match="CAP_SYS_TIME; run as root, or leave this fault out"):
        fault.check(Place(containers=False))


PAUSE = """
from contextlib import contextmanager
from experiments.faults import Fault

class Nap(Fault):
    kind = "nap"
    targets = ("pi",)
    example = "3s"

    @contextmanager
    def in_force(self, hands, account):
        account.evidence("it naps", "yes", True)
        yield
"""


def test_one_more_fault_is_one_more_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nap.py").write_text(PAUSE)
    monkeypatch.setattr(faults, "__path__", [*faults.__path__, str(tmp_path)])
    try:
        assert str(faults.parse("pi:nap:3s")) == "pi:nap:3s"
        assert "pi:nap:3s" in faults.examples()
    finally:
        del faults.REGISTRY._kinds["nap"], sys.modules["experiments.faults.nap"]


def test_a_study_of_faults_leaves_out_what_this_host_cannot_do_and_says_so() -> None:
    planned = of_study("faults", {"REPETITIONS": "1", "PLACEMENT": "host", "DEVICE": "none"}, "0123abcd", "host")
    kept = cli._possible(planned)
    left_out = {entry["arm"]: entry["reason"] for entry in kept.record()["left_out"]}
    assert set(left_out) == {
        "link:cut:1s",
        "disk:full",
        "board:reset",
        "board:silence:1s",
        "serial:garbage",
        "serial:unplug:1s",
    }
    assert left_out["link:cut:1s"].endswith("say PLACEMENT=docker")
    assert {cell.arm for cell in kept.cells} | set(left_out) == set(studies.REGISTRY.all()["faults"].arms)
    assert {line for line in cli._notices(kept, None) if line.startswith("left out: ")} == {
        f"left out: arm {arm}: {reason}" for arm, reason in left_out.items()
    }


def test_a_stand_is_not_brought_up_anew_for_another_fault() -> None:
    cells = of_study("faults", {}, "0123abcd", "docker").cells
    standing = {cell.arm: cell.conditions.standing() for cell in cells}
    assert standing["broker:kill"] == standing["pi:kill"] == standing["board:reset"]
    assert standing["link:cut:1s"] != standing["pi:kill"], "its helper must run"
    assert standing["disk:full"].setup().stores


def test_a_session_is_part_of_a_cells_conditions() -> None:
    clean, persistent = (
        of_scenario("0", Settings(session=value), "0123abcd").cells[0] for value in (None, "persistent")
    )
    assert (clean.conditions.session, persistent.conditions.session) == ("clean", "persistent")
    assert persistent.record(0)["session"] == "persistent"
    assert not clean.conditions.setup().stores
    assert persistent.conditions.setup().stores


def test_a_broker_that_would_keep_no_session_refuses_persistent_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Mosquitto, "available_on_host", lambda _self: True)

    def conditions(broker: str, fault: str) -> ControlConditions:
        settings = Settings.parse({"MESSAGES": "1000", "INTERVALS": "20", "BROKER": broker, "SESSION": "persistent",
                                   "DEVICE": "none", "FAULT": fault})  # fmt: skip
        planned: ControlConditions = of_scenario("0", settings, "0123abcd", "host").cells[0].conditions
        return planned

    ControlAsProcesses().check(conditions("mosquitto", "pi:kill"))
    with pytest.raises(BadInputError, match="SESSION=persistent: aMQTT keeps none of clients without a password"):
        ControlAsProcesses().check(conditions("amqtt", "pi:kill"))
    for fault in ("broker:kill", "broker:restart"):
        with pytest.raises(BadInputError, match="SESSION=persistent: the broker of plain processes keeps none over"):
            ControlAsProcesses().check(conditions("mosquitto", fault))

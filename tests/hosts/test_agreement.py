# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments import families
from experiments.bundle import columns, typed
from hosts import agreement

COLUMNS = columns(families.named("control"))
FIRST_NS, LAST_NS = 1_000, 2_000

PROOFS: list[dict[str, Any]] = [
    {
        "service": "broker", "knob": "priority", "holds": True,
        "observed": {
            "value": "SCHED_FIFO 90",
            "threads": [
                {"tid": 7, "name": "mosquitto", "policy": "SCHED_FIFO", "priority": 90, "nice": 0, "cpus": [0, 2, 3]}
            ],
        },
    },
    {"service": "broker", "knob": "affinity", "holds": True, "observed": {"value": [0, 2, 3]}},
    {"service": "broker", "knob": "tcp", "holds": True, "observed": {"value": "nodelay"}},
    {"service": "broker", "knob": "weight", "holds": True, "observed": {"value": "weight 157"}},
    {"service": "broker", "knob": "quota", "holds": True, "observed": {"value": 0.5}},
    {"service": "broker", "knob": "memory", "holds": True, "observed": {"value": "536870912 bytes"}},
    {"service": "broker", "knob": "qos granted", "holds": True, "observed": {"value": 0}},
]  # fmt: skip

BROKER: dict[str, Any] = {
    "threads": {"7": ["FIFO", 90, 0, "0,2-3"]}, "nodelay": [1, 1], "cpu.weight": "157", "cpu.max": "50000 100000",
    "memory.max": "536870912",
}  # fmt: skip


def reading(broker: dict[str, Any] | None = None, from_ns: int = 1_100, to_ns: int = 1_200) -> agreement.Reading:
    return {"from_ns": from_ns, "to_ns": to_ns, "services": {} if broker is None else {"broker": broker}}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """One repetition of one cell, whose cycles ran from FIRST_NS to LAST_NS."""
    cell = {"cell": 0, "scenario": "4", "arm": "", "interval_ms": 500, "qos": 0}
    entry = {"cell": 0, "repetition": 1, "counted": True, "proofs": PROOFS}
    (tmp_path / "bundle.json").write_text(json.dumps({"plan": {"cells": [cell]}, "repetitions": [entry]}))
    row: dict[str, Any] = dict.fromkeys(COLUMNS)
    row |= {name: cell[name] for name in ("scenario", "arm", "interval_ms", "qos")} | {"repetition": 1}
    rows = [row | {"sent_ns": FIRST_NS, "received_ns": 1_500}, row | {"sent_ns": 1_900, "received_ns": LAST_NS}]
    pq.write_table(pa.Table.from_pylist(rows, typed(COLUMNS)), tmp_path / "samples.parquet")
    return tmp_path


def test_a_kernel_that_holds_what_was_proved_agrees(bundle: Path) -> None:
    agreed = agreement.compare(bundle, [reading(BROKER)])
    assert agreed.disagreements == []
    assert (agreed.readings, agreed.compared) == (1, 6)
    assert agreed.seen["broker"]["quota"] == 0.5


@pytest.mark.parametrize(
    ("changes", "knob"),
    [
        ({"threads": {"7": ["OTHER", 0, 0, "0,2-3"]}}, "priority"),
        ({"threads": {"7": ["FIFO", 90, 0, "0,2-3"], "8": ["OTHER", 0, 0, "0,2-3"]}}, "priority"),
        ({"threads": {"7": ["FIFO", 90, 0, "0"]}}, "affinity"),
        ({"nodelay": [0, 1]}, "tcp"),
        ({"nodelay": []}, "tcp"),
        ({"cpu.weight": "100"}, "weight"),
        ({"cpu.max": "max 100000"}, "quota"),
    ],
)
def test_a_kernel_that_holds_anything_else_disagrees(bundle: Path, changes: dict[str, Any], knob: str) -> None:
    disagreements = agreement.compare(bundle, [reading(BROKER | changes)]).disagreements
    assert any(knob in line for line in disagreements)


def test_a_thread_that_both_saw_must_be_the_same_to_both(bundle: Path) -> None:
    facts = json.loads((bundle / "bundle.json").read_text())
    facts["repetitions"][0]["proofs"][0]["observed"]["threads"][0]["priority"] = 89
    (bundle / "bundle.json").write_text(json.dumps(facts))
    assert "thread 7 (mosquitto)" in agreement.compare(bundle, [reading(BROKER)]).disagreements[0]


def test_a_service_that_was_not_found_running_disagrees(bundle: Path) -> None:
    assert "broker was not found running" in agreement.compare(bundle, [reading(None)]).disagreements[0]


def test_a_repetition_too_short_to_be_read_is_no_disagreement_where_its_plan_is_not_ours(bundle: Path) -> None:
    unread = reading(BROKER, from_ns=LAST_NS + 1, to_ns=LAST_NS + 2)
    assert agreement.compare(bundle, [unread]).disagreements == ["repetition 1: the kernel was not read while it ran"]
    assert agreement.compare(bundle, [unread], all_read=False).disagreements == []


def test_a_plain_process_has_no_group_of_its_own_to_compare(bundle: Path) -> None:
    plain = {name: copy.copy(value) for name, value in BROKER.items() if not name.startswith(("cpu.", "memory."))}
    agreed = agreement.compare(bundle, [reading(plain)])
    assert agreed.disagreements == []
    assert agreed.compared == 3


@pytest.mark.parametrize(("from_ns", "to_ns"), [(900, 1_100), (1_900, 2_100), (3_000, 3_100)])
def test_a_reading_that_is_not_wholly_within_the_cycles_proves_nothing(bundle: Path, from_ns: int, to_ns: int) -> None:
    agreed = agreement.compare(bundle, [reading(BROKER, from_ns, to_ns)])
    assert agreed.readings == 0
    assert agreed.disagreements == ["repetition 1: the kernel was not read while it ran"]


def test_a_bundle_of_which_nothing_counts_does_not_agree(bundle: Path) -> None:
    facts = json.loads((bundle / "bundle.json").read_text())
    facts["repetitions"][0]["counted"] = False
    (bundle / "bundle.json").write_text(json.dumps(facts))
    assert agreement.compare(bundle, [reading(BROKER)]).disagreements == ["no repetition of it counts"]

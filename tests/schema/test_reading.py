# SPDX-License-Identifier: Apache-2.0
"""Everything that a bundle.json, or a folder, can do to its reader ends in one line."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from schema import reading
from schema.reading import UnreadableError

CELL = {
    "cell": 0,
    "scenario": "1",
    "arm": "",
    "interval_ms": 20,
    "qos": 0,
    "board": "none",
    "contention": None,
    "knobs": {},
}
PLAN = {
    "seed": 1,
    "messages": 10,
    "repetitions": 1,
    "warmup": 0,
    "timeout_ms": 1000,
    "cells": [CELL],
    "order": [[0, 1]],
}
GOOD: dict[str, Any] = {
    "schema_version": 1, "name": "scenario-1", "status": "partial", "command": ["make"], "started_utc": "2026-11-21",
    "git": None, "placement": "docker", "notice": None, "plan": PLAN, "host": {}, "engine": None, "images": {},
    "repetitions": [],
}  # fmt: skip


def put(folder: Path, text: str | bytes) -> Path:
    (folder / "bundle.json").write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def refused(folder: Path) -> str:
    with pytest.raises(UnreadableError) as caught:
        reading.checked(folder / "bundle.json", reading.document(folder))
    line = str(caught.value)
    assert line.isprintable()
    return line


def test_a_good_document_is_read_and_what_is_not_known_is_tolerated(tmp_path: Path) -> None:
    put(tmp_path, json.dumps(GOOD | {"question": {"nobody": ["knows", 1.5, None]}}))
    assert reading.checked(tmp_path / "bundle.json", reading.document(tmp_path)).plan.cells[0].interval_ms == 20


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "../../etc"}, "name is '../../etc'; allowed is a name of at most 80 letters"),
        ({"name": "\x1b[31mred"}, r"name is '\x1b[31mred'; allowed is"),
        ({"status": "fine"}, "status is 'fine'; allowed is one of complete, partial, refused"),
        ({"placement": "cloud"}, "placement is 'cloud'; allowed is one of docker, host"),
        ({"plan": PLAN | {"messages": 10**12}}, "plan.messages is 1000000000000; allowed is a whole"),
        ({"plan": PLAN | {"seed": True}}, "plan.seed is true; allowed is a whole number"),
        ({"plan": PLAN | {"cells": [CELL | {"qos": 7}]}}, "plan.cells[0].qos is 7; allowed is a whole number from 0"),
        ({"plan": PLAN | {"cells": [CELL | {"interval_ms": 0}]}}, "plan.cells[0].interval_ms is 0; allowed is"),
        ({"plan": PLAN | {"cells": [CELL | {"arm": "a\nb"}]}}, r"plan.cells[0].arm is 'a\nb'; allowed is a line"),
        ({"plan": PLAN | {"cells": {}}}, "plan.cells is {}; allowed is a list"),
        ({"plan": PLAN | {"order": [[0]]}}, "plan.order[0] is [0]; allowed is a list of two"),
        ({"images": {"broker": {"id": "debian:latest"}}}, "images.broker.id is 'debian:latest'; allowed is sha"),
        ({"host": []}, "host is []; allowed is an object"),
        ({"command": ["x" * 10_000]}, "command[0] is 'xxx"),
    ],
)  # fmt: skip
def test_a_known_field_is_what_it_may_be(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    assert told in refused(put(tmp_path, json.dumps(GOOD | changes)))


@pytest.mark.parametrize("name", [name for name in GOOD if name != "schema_version"])
def test_a_missing_field_is_named(tmp_path: Path, name: str) -> None:
    put(tmp_path, json.dumps({key: value for key, value in GOOD.items() if key != name}))
    assert f"bundle.json: {name} is missing" in refused(tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"schema_version": 1, "x": ' + "[" * 200 + "]" * 200 + "}", "nested deeper than"),
        ('{"schema_version": NaN}', "NaN is no number"),
        ('{"schema_version": 1, "x": 1e999}', "beyond all bounds"),
        ('{"schema_version": 1, "x": ' + "9" * 5000 + "}", "not readable as JSON"),
        ('{"schema_version": 1, "x": 99999999999999999999}', "does not fit 64 bits"),
        ('{"schema_version": 1, "x": "\\ud800"}', "half of a character"),
        ('{"schema_version": 1, "\\udfff": 1}', "half of a character"),
        (b"\xff\xfe", "not readable as JSON"),
        ('"', "not readable as JSON"),
        ('{"schema_version": 99}', "newer than 2"),
    ],
    ids=str,
)  # fmt: skip
def test_json_that_would_break_its_reader_is_one_line(tmp_path: Path, text: str | bytes, told: str) -> None:
    assert told in refused(put(tmp_path, text))


@pytest.mark.parametrize("name", ["figures", "logs/broker.log", "samples.parquet", "x"])
def test_a_link_anywhere_inside_is_refused(tmp_path: Path, name: str) -> None:
    put(tmp_path, json.dumps(GOOD))
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).symlink_to("/etc")
    assert f"{name}: a symbolic link" in refused(tmp_path)


def test_a_pipe_inside_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "bundle.json")
    assert "neither a file nor a folder" in refused(tmp_path)


def test_the_folder_itself_may_be_reached_by_a_link_as_latest_is(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    put(tmp_path / "run", json.dumps(GOOD))
    (tmp_path / "latest").symlink_to("run")
    assert reading.document(tmp_path / "latest")["name"] == "scenario-1"


def test_a_document_larger_than_any_run_writes_is_not_even_opened(tmp_path: Path) -> None:
    with (tmp_path / "bundle.json").open("wb") as file:
        file.truncate(1 << 40)
    assert "larger than" in refused(tmp_path)

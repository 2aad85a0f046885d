# SPDX-License-Identifier: Apache-2.0
"""`analysis` is four rooms, one behind the other: a module knows its own room and those before it, none behind."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import analysis

ROOT = Path(analysis.__file__).parent
ROOMS = ("reading", "statistics", "judging", "showing")
OUTSIDE = {"__init__", "__main__", "cli"}
"""Modules in no room: what a user calls, which knows all of them."""
MODULES = sorted(path.relative_to(ROOT) for path in ROOT.rglob("*.py"))
CONTROL_ONLY = ("T", "R", "O", "t_us", "r_us", "o_us", "T_intended", "interval_ms", "qos")


def imported(path: Path) -> Iterator[str]:
    """Every module that a file imports, whether as such or as a name of its package."""
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def rooms_of(path: Path) -> set[str]:
    """The rooms that a file imports from; `.` for a module in none."""
    names = (name.split(".") for name in imported(path) if name.split(".")[0] == "analysis")
    return {parts[1] if parts[1] in ROOMS else "." for parts in names}


def test_every_module_is_in_a_room() -> None:
    assert {path.parts[0] for path in MODULES if len(path.parts) > 1} == set(ROOMS)
    assert {path.stem for path in MODULES if len(path.parts) == 1} == OUTSIDE


@pytest.mark.parametrize("path", [path for path in MODULES if len(path.parts) > 1], ids=str)
def test_a_module_imports_from_its_room_and_those_before_it(path: Path) -> None:
    allowed = ROOMS[: ROOMS.index(path.parts[0]) + 1]
    assert rooms_of(path) <= set(allowed)


@pytest.mark.parametrize(
    "path", [path for path in MODULES if "control" not in path.parts and path.stem != "control"], ids=str
)
def test_no_module_names_an_axis_or_a_metric_of_one_family(path: Path) -> None:
    """But those that are the control loop's alone."""
    strings = (
        node.value
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
    )
    assert not {value for value in strings if value in CONTROL_ONLY}


def test_nobody_imports_the_programs_that_write_bundles() -> None:
    written_by = {"experiments", "clients", "rpi", "firmware"}
    assert not {name for path in MODULES for name in imported(path) if name.split(".")[0] in written_by}

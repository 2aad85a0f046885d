# SPDX-License-Identifier: Apache-2.0
"""The core knows no family by name: neither in an import, nor by a service, an axis or a column of one."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from stand import ROOT

from experiments import families

EXPERIMENTS = ROOT / "experiments"
CORE = sorted(
    [EXPERIMENTS / f"{name}.py" for name in (
        "bundle", "cells", "disturbance", "gate", "injection", "looks", "noise", "observation", "plan", "progress",
        "proof", "registry", "replay", "roles", "runner", "samples", "tidy", "witness",
    )] + [EXPERIMENTS / "families" / "__init__.py", EXPERIMENTS / "placements" / "__init__.py",
          EXPERIMENTS / "placements" / "docker.py", EXPERIMENTS / "placements" / "host.py"],
)  # fmt: skip
OF_A_FAMILY = ("experiments.families.control", "experiments.boards", "experiments.brokers", "clients", "rpi")


def strings(tree: ast.Module) -> set[str]:
    """Every text in it but docstrings, which may give examples."""
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
    }


def imports(tree: ast.Module) -> set[str]:
    """Every module that it imports, and what it takes from packages."""
    names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(EXPERIMENTS)))
def test_it_names_nothing_of_a_family(path: Path) -> None:
    tree = ast.parse(path.read_text())
    for name in imports(tree):
        # What comes from the driver's clock before its first cycle is every driver's.
        assert not name.startswith(OF_A_FAMILY) or name.startswith("clients.schedule"), name
    for family in families.REGISTRY.all().values():
        words = {*(role.name for role in family.roles), *(metric.column for metric in family.metrics)}
        words |= {axis.name for axis in family.axes} - {"interval_ms"}
        # `pi` is also the side of the stand whose CPUs nothing disturbs, `capture` what any family's may be kept as.
        assert not strings(tree) & (words - {"pi", "capture"})

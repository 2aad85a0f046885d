# SPDX-License-Identifier: Apache-2.0
"""A checkout with one more family in it."""

import shutil
from pathlib import Path

import pytest
from copied import Checkout
from stand import ROOT

PROGRAMS = ("analysis", "clients", "experiments", "firmware", "rpi", "schema")


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A copy, with the folder of the echo beside the control loop's: nothing else is touched."""
    folder = tmp_path / "checkout"
    for name in PROGRAMS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "build"))
    shutil.copytree(ROOT / "compose", folder / "compose")
    for name in ("docker-compose.yml", ".dockerignore"):
        shutil.copy2(ROOT / name, folder)
    shutil.copytree(Path(__file__).parent / "echo", folder / "experiments" / "families" / "echo")
    return Checkout(folder)

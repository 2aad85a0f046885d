# SPDX-License-Identifier: Apache-2.0
"""A checkout with one more family in it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from stand import ROOT

PROGRAMS = ("analysis", "clients", "experiments", "firmware", "rpi", "schema")


class Checkout:
    """Our programs, from a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def analysis(self, *arguments: object) -> str:
        """What `python -m analysis` said, which must have ended well."""
        done = subprocess.run(
            [sys.executable, "-m", "analysis", *map(str, arguments)],
            cwd=self.folder, capture_output=True, text=True, check=False, env=os.environ | {"TERM": "dumb"},
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A copy, with the folder of the echo beside the control loop's: nothing else is touched."""
    folder = tmp_path / "checkout"
    for name in PROGRAMS:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "build"))
    shutil.copytree(ROOT / "compose", folder / "compose")
    shutil.copy2(ROOT / "docker-compose.yml", folder)
    shutil.copytree(Path(__file__).parent / "echo", folder / "experiments" / "families" / "echo")
    return Checkout(folder)

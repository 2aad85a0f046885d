# SPDX-License-Identifier: Apache-2.0
"""Our programs in a folder of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


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

# SPDX-License-Identifier: Apache-2.0
"""`PRECISION`: between blocks, `analysis` judges the bundle as it stands; nothing is measured meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TIMEOUT_S = 120.0


def look(folder: Path, *options: str) -> dict[str, Any]:
    """Ask `analysis` what the bundle says by now. Whatever goes wrong with that stops no run: it is told in `error`."""
    command = [sys.executable, "-m", "analysis", "look", str(folder.resolve()), *options]
    said = ""
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, start_new_session=True
        )
        said = done.stderr
        seen: dict[str, Any] = json.loads(done.stdout)
        return seen | {"stop": bool(seen["stop"]), "reason": str(seen["reason"])}
    except subprocess.TimeoutExpired:
        error = f"no answer within {TIMEOUT_S:.0f} s"
    except (OSError, ValueError, KeyError, TypeError):
        error = (said.strip().splitlines() or ["it said nothing"])[-1]
    return {"stop": False, "reason": f"the look failed: {error}", "error": error}

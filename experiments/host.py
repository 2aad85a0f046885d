# SPDX-License-Identifier: Apache-2.0
"""What this host is: the facts a reader of the bundle, and `make doctor`, need to judge a result."""

from __future__ import annotations

import hashlib
import platform
import subprocess
from pathlib import Path
from typing import Any

from experiments.observer.facts import Machine

_NOT_TOLD = ("cpu_list", "boot_id")


def facts() -> dict[str, Any]:
    """Return `host` in bundle.json, of this very machine."""
    return described(Machine().facts(), platform.node())


def described(machine: dict[str, Any], name: str) -> dict[str, Any]:
    """Return `host` in bundle.json. The name is hashed: enough to tell hosts apart, nothing to give away."""
    return {
        "hostname_hash": hashlib.sha256(name.encode()).hexdigest()[:16],
        **{fact: value for fact, value in machine.items() if fact not in _NOT_TOLD},
        "python": platform.python_version(),
    }


def git() -> dict[str, Any] | None:
    """Return the revision of this checkout and whether it is changed; None outside one."""
    root = Path(__file__).parents[1]
    try:
        revision = _git(root, "rev-parse", "HEAD")
        return {"revision": revision, "dirty": bool(_git(root, "status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(root), *arguments], capture_output=True, text=True, check=True
    ).stdout.strip()

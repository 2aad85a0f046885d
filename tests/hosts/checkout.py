# SPDX-License-Identifier: Apache-2.0
"""This checkout as it goes into a guest: its last commit with its history, and what has changed since."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from hosts import processes


@dataclass(frozen=True)
class Checkout:
    """A working tree; `changed` are the files that differ from its last commit, also new and removed ones."""

    root: Path
    revision: str
    changed: tuple[str, ...]

    @classmethod
    def of(cls, root: Path) -> Checkout:
        """Look at a working tree; files that git ignores stay behind."""
        changed = _git(root, "diff", "--name-only", "--no-renames", "-z", "HEAD")
        new = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
        return cls(
            root, _git(root, "rev-parse", "--short", "HEAD").strip(), tuple(filter(None, (changed + new).split("\0")))
        )

    def describe(self) -> str:
        """Say what is tested."""
        if not self.changed:
            return f"revision {self.revision}"
        some = ", ".join(self.changed[:3]) + (", …" if len(self.changed) > 3 else "")
        return f"revision {self.revision} with {len(self.changed)} files changed since ({some})"

    def copy_to(self, folder: Path, log: Path) -> None:
        """Clone it there, as a stranger would, and put the changes on top."""
        # Modes are part of what BuildKit compares: the same here as for the guest's own user.
        before = os.umask(0o022)
        try:
            with tempfile.TemporaryDirectory(prefix="host-test-") as scratch:
                bundle = f"{scratch}/checkout.bundle"
                _git(self.root, "bundle", "create", "--quiet", bundle, "HEAD")
                quietly = ["-c", "advice.detachedHead=false"]
                processes.run(["git", *quietly, "clone", "--quiet", bundle, str(folder)], log)
            for name in self.changed:
                source, target = self.root / name, folder / name
                if source.is_file():
                    target.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(source, target)
                    target.chmod(0o755 if os.access(source, os.X_OK) and source.stat().st_mode & 0o100 else 0o644)
                else:
                    target.unlink(missing_ok=True)
        finally:
            os.umask(before)


def _git(root: Path, *arguments: str) -> str:
    # Root asks of a user's checkout.
    command = ["git", "-c", "safe.directory=*", "-C", str(root), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout

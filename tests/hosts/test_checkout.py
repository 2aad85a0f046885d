# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hosts.checkout import Checkout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A committed tree: kept, gone, ignored."""
    root = tmp_path / "tree"
    root.mkdir()
    for name in ("kept", "gone"):
        (root / name).write_text(f"{name}\n")
    (root / ".gitignore").write_text("results/\n")
    for command in (
        ["init", "--quiet"], ["add", "."],
        ["-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "--quiet", "--message", "x"],
    ):  # fmt: skip
        subprocess.run(["git", "-C", str(root), *command], check=True)
    return root


def test_what_changed_since_the_last_commit_goes_along_and_what_git_ignores_does_not(
    tree: Path, tmp_path: Path
) -> None:
    (tree / "kept").write_text("changed\n")
    (tree / "gone").unlink()
    (tree / "new").mkdir()
    (tree / "new" / "program").write_text("#!/bin/sh\n")
    (tree / "new" / "program").chmod(0o700)
    (tree / "results").mkdir()
    (tree / "results" / "x").write_text("mine\n")
    checkout = Checkout.of(tree)
    checkout.copy_to(tmp_path / "copy", tmp_path / "log")
    copied = {str(path.relative_to(tmp_path / "copy")) for path in (tmp_path / "copy").rglob("*") if path.is_file()}
    assert {name for name in copied if not name.startswith(".git/")} == {".gitignore", "kept", "new/program"}
    assert (tmp_path / "copy" / "kept").read_text() == "changed\n"
    assert (tmp_path / "copy" / "new" / "program").stat().st_mode & 0o777 == 0o755
    assert checkout.describe() == f"revision {checkout.revision} with 3 files changed since (gone, kept, new/program)"


def test_an_unchanged_tree_is_its_revision(tree: Path) -> None:
    checkout = Checkout.of(tree)
    assert checkout.describe() == f"revision {checkout.revision}"

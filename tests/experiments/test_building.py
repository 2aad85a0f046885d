# SPDX-License-Identifier: Apache-2.0
"""Which changes make a build necessary, and which do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments import building

BUILDS = {"testbed/pi": {"context": ".", "args": {"BASE_IMAGE": "debian"}}}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    (tmp_path / ".dockerignore").write_text("*\n!rpi\n**/__pycache__\n")
    (tmp_path / "rpi" / "__pycache__").mkdir(parents=True)
    (tmp_path / "rpi" / "bridge.py").write_text("print()\n")
    (tmp_path / "rpi" / "bridge.py").chmod(0o644)
    return tmp_path


def test_a_file_that_no_image_may_copy_changes_nothing(checkout: Path) -> None:
    before = building.digest(checkout, BUILDS, ["sha256:1"])
    (checkout / "README.md").write_text("new\n")
    (checkout / "rpi" / "__pycache__" / "bridge.pyc").write_text("new\n")
    assert building.digest(checkout, BUILDS, ["sha256:1"]) == before


def test_a_files_content_its_mode_its_name_and_a_new_file_each_count(checkout: Path) -> None:
    file = checkout / "rpi" / "bridge.py"
    seen = [building.digest(checkout, BUILDS, [])]
    file.write_text("print(1)\n")
    seen.append(building.digest(checkout, BUILDS, []))
    file.chmod(0o755)
    seen.append(building.digest(checkout, BUILDS, []))
    file = file.rename(checkout / "rpi" / "other.py")
    seen.append(building.digest(checkout, BUILDS, []))
    (checkout / "rpi" / "empty.py").touch()
    seen.append(building.digest(checkout, BUILDS, []))
    assert len(set(seen)) == len(seen)


def test_what_a_build_is_told_and_the_image_it_stands_on_count(checkout: Path) -> None:
    told_otherwise = {"testbed/pi": {"context": ".", "args": {"BASE_IMAGE": "mine"}}}
    seen = {
        building.digest(checkout, BUILDS, ["sha256:1"]),
        building.digest(checkout, BUILDS, ["sha256:2"]),
        building.digest(checkout, BUILDS, [None]),
        building.digest(checkout, told_otherwise, ["sha256:1"]),
    }
    assert len(seen) == 4

# SPDX-License-Identifier: Apache-2.0
"""A derived file that finds no room is named, and leaves nothing half written."""

from pathlib import Path

import pytest

from analysis.reading import files


def test_no_room_is_said_with_the_file_and_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "summary.csv"
    files.write_text(target, "old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left on device") as caught:
        files.write_text(target, "new")
    assert caught.value.filename == str(target)
    assert [path.name for path in tmp_path.iterdir()] == ["summary.csv"]
    assert target.read_text() == "old"

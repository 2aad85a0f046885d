# SPDX-License-Identifier: Apache-2.0
"""What CONTRIBUTING.md says an addition takes, done: its very files, in a copy of the checkout, and nothing else."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand import ROOT, Runner, check_bundle


def files_of(page: str, folder: str) -> dict[str, str]:
    """The files under a folder that a page shows, each in the first block after its name."""
    shown = rf"^`({folder}/[\w.]+)`[^\n]*\n(?:[^`\n][^\n]*\n)*```\w+\n(.*?)^```$"
    return dict(re.findall(shown, page, re.MULTILINE | re.DOTALL))


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Path]:
    """The checkout's files as they are now, without what git ignores."""
    said = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, said.split("\0")):
        if (source := ROOT / name).is_file():
            target = tmp_path / "copy" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    yield tmp_path / "copy"
    subprocess.run(["docker", "image", "rm", "--force", "testbed/broker-example"], capture_output=True, check=False)


@pytest.mark.engine
def test_a_broker_is_the_three_files_that_the_page_shows(copy: Path, runner: Runner) -> None:
    files = files_of((copy / "CONTRIBUTING.md").read_text(), "experiments/brokers/example")
    assert {Path(name).name for name in files} == {"__init__.py", "Dockerfile", "nodelay.conf"}
    for name, text in files.items():
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).write_text(text)
    short = ("PLACEMENT=docker", "DEVICE=none", "REPETITIONS=1", "MESSAGES=20", "INTERVALS=20")
    code, said = runner.run("run", "1", *short, "BROKER=example,mosquitto", "QOS=0,2", PYTHONPATH=str(copy))
    assert code == 0, said
    check_bundle(runner.bundle)
    facts = runner.facts()
    assert [cell["arm"] for cell in facts["plan"]["cells"]] == ["example", "example", "mosquitto", "mosquitto"]
    assert facts["images"]["broker-example"]["version"].startswith("mosquitto version")
    assert facts["images"]["broker"]["id"] != facts["images"]["broker-example"]["id"]
    # Alone, it refuses what it has no configuration for.
    code, said = runner.run("run", "1", *short, "BROKER=example", "TCP=nagle", PYTHONPATH=str(copy))
    assert (code, said) == (2, "testbed: TCP=nagle: example does nodelay only\n")

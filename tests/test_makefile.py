# SPDX-License-Identifier: Apache-2.0
"""make hands what a user gives to the programs as text, whatever it looks like, and its own end to the run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from stand import ROOT, eventually, undisturbed

from experiments.variables import VARIABLES

PROGRAM = f"""#!{sys.executable}
import json, os, sys, time
words = sys.argv[1:]
with open("calls", "a") as calls:
    print(json.dumps([words, {{name: os.environ.get(name) for name in ("A", "B", "BUNDLE", "INTERVALS")}}]), file=calls)
if "bench" in words:
    time.sleep(60)
"""


class Make:
    """Our Makefile, with a program in Python's place that writes down how it was called."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copy(ROOT / "Makefile", folder)
        program = folder / ".venv" / "bin" / "python"
        program.parent.mkdir(parents=True)
        program.write_text(PROGRAM)
        program.chmod(0o755)
        (folder / "requirements-dev.lock").touch()
        (folder / ".venv" / ".ready").touch()

    def start(self, *words: str, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["make", *words], cwd=self.folder, env=undisturbed() | environment, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def calls(self) -> list[tuple[list[str], dict[str, str]]]:
        """Arguments and environment of each program that was called."""
        calls = self.folder / "calls"
        lines = calls.read_text().splitlines() if calls.exists() else []
        return [tuple(json.loads(line)) for line in lines]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    return Make(tmp_path)


EVIL = [
    ";touch broken", "&& touch broken", "|touch broken", "`touch broken`", "$(touch broken)", "$$(touch broken)",
    "$(shell touch broken)", "${shell touch broken}", '"; touch broken; "', "'; touch broken; '", "a b", "--help",
    "$(eval $(shell touch broken))", "\\", "*", "~", "x\ttouch", "#", "$HOME", "é\u202e",
]  # fmt: skip


@pytest.mark.parametrize("text", EVIL)
@pytest.mark.parametrize("target", ["scenario-", "study-", "path-"])
def test_the_name_of_a_target_is_text(make: Make, target: str, text: str) -> None:
    make.start(target + "1" + text).communicate()
    assert not (make.folder / "broken").exists()
    for words, _ in make.calls()[:1]:
        assert words[3:] == ["--", f"1{text}"], "as it was typed"


@pytest.mark.parametrize("text", EVIL)
@pytest.mark.parametrize("by", ["command line", "environment"])
def test_a_value_is_text(make: Make, text: str, by: str) -> None:
    given = {"A": text, "B": text, "BUNDLE": text, "INTERVALS": text}
    words = [f"{name}={value}" for name, value in given.items()] if by == "command line" else []
    environment = given if by == "environment" else {}
    for target in ("compare", "verify", "report", "scenario-1"):
        make.start(target, *words, **environment).communicate()
    assert not (make.folder / "broken").exists()
    calls = make.calls()
    assert [words for words, _ in calls[:3]] == [
        ["-m", "analysis", "compare", "--", text, text],
        ["-m", "analysis", "verify", "--", text],
        ["-m", "analysis", "report", "--", text],
    ]
    assert calls[3][1]["INTERVALS"] == text


@pytest.mark.parametrize("text", EVIL)
def test_the_environment_may_have_any_name_and_is_made_where_there_is_none(make: Make, text: str) -> None:
    python = make.folder / "python"
    python.write_text(
        '#!/bin/sh\n[ "$1" = -c ] && exit 0\n'  # new enough
        'mkdir -p -- "$4/bin" && cp .venv/bin/python "./$4/bin/python" && cp /bin/true "./$4/bin/pip"\n'
    )
    python.chmod(0o755)
    said, _ = make.start("clean", f"VENV=./{text}", "PYTHON=./python").communicate()
    assert [words for words, _ in make.calls()] == [["-m", "experiments", "clean"]], said
    assert (make.folder / text / ".ready").exists()
    assert not (make.folder / "broken").exists()


@pytest.mark.parametrize("text", EVIL)
@pytest.mark.parametrize("by", ["command line", "environment"])
def test_the_name_of_a_python_is_text(make: Make, text: str, by: str) -> None:
    (make.folder / ".venv" / ".ready").unlink()
    words = [f"PYTHON={text}"] if by == "command line" else []
    process = make.start("clean", *words, **({} if words else {"PYTHON": text}))
    said, _ = process.communicate()
    assert process.returncode == 2
    assert "testbed: Python 3.11 or newer is needed; say which with PYTHON=" in said
    assert make.calls() == []
    assert not (make.folder / "broken").exists()


def test_without_a_bundle_it_is_the_latest(make: Make) -> None:
    make.start("verify").communicate()
    make.start("report", "BUNDLE=").communicate()
    assert [words[-1] for words, _ in make.calls()] == ["results/latest"] * 2


def test_to_compare_both_sides_are_asked_for(make: Make) -> None:
    process = make.start("compare", "A=results/latest")
    said, _ = process.communicate()
    assert "testbed: say which: make compare A=BUNDLE B=BUNDLE" in said
    assert process.returncode == 2
    assert make.calls() == []


def test_a_sigterm_to_make_reaches_the_program(make: Make) -> None:
    process = make.start("bench")
    eventually(make.calls, "the program")
    (child,) = {
        int(folder.name) for folder in Path("/proc").glob("[0-9]*")
        if _parent(folder) == process.pid
    }  # fmt: skip
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert not Path(f"/proc/{child}").exists(), "make waits for it"


def _parent(folder: Path) -> int | None:
    try:
        return int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


@pytest.mark.parametrize("recipe", ["@exec", "@true &&"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_a_run_ends_when_the_make_that_started_it_is_told_to(tmp_path: Path, number: int, recipe: str) -> None:
    """Even by what make cannot hand on (SIGKILL), or does not (SIGHUP and SIGINT)."""
    script = (
        "import os, time\nfrom experiments.interruption import stoppable\n"
        "with stoppable():\n open('up', 'w').write(str(os.getpid()))\n time.sleep(60)"
    )
    (tmp_path / "Makefile").write_text(f'run:\n\t{recipe} {sys.executable} -c "$$SCRIPT"\n')
    process = subprocess.Popen(
        ["make", "run"], cwd=tmp_path, env=undisturbed() | {"PYTHONPATH": str(ROOT), "SCRIPT": script},
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    up = tmp_path / "up"
    eventually(lambda: up.exists() and up.read_text(), "the run")
    process.send_signal(number)
    process.wait(20)
    eventually(lambda: _ended(int(up.read_text())), "its end")


def _ended(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_a_hangup_that_nohup_has_us_ignore_stays_ignored() -> None:
    script = (
        "import os, signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from experiments.interruption import stoppable\n"
        "with stoppable():\n os.kill(os.getpid(), signal.SIGHUP)\nprint('on')"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ
    )
    assert (done.returncode, done.stdout) == (0, "on\n")


def test_help_names_every_variable() -> None:
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    shown = {line.split()[0] for line in said.splitlines() if line.strip()}
    assert set(VARIABLES) <= shown

# SPDX-License-Identifier: Apache-2.0
"""What CONTRIBUTING.md says an addition takes, done: its very files, in a copy of the checkout, and nothing else."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from stand import ROOT, Runner, alive, check_bundle, children, eventually, samples_of

SHORT = ("REPETITIONS=1", "MESSAGES=20", "INTERVALS=20")


def files_of(page: str) -> dict[str, str]:
    """The files that a page shows, each in the first block after its name."""
    shown = r"^`(experiments/[\w./]+)`[^\n]*\n(?:[^`\n][^\n]*\n)*```\w+\n(.*?)^```$"
    return dict(re.findall(shown, page, re.MULTILINE | re.DOTALL))


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[Path]:
    """The checkout's files as they are now, without what git ignores, and with those that the page shows."""
    said = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    folder = tmp_path / "copy"
    for name in filter(None, said.split("\0")):
        if (source := ROOT / name).is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    for name, text in files_of((folder / "CONTRIBUTING.md").read_text()).items():
        assert not (folder / name).exists(), "an addition changes no file"
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    yield folder
    subprocess.run(["docker", "image", "rm", "--force", "testbed/broker-example"], capture_output=True, check=False)


def test_the_page_shows_one_of_each_kind() -> None:
    folders = {str(Path(name).parent) for name in files_of((ROOT / "CONTRIBUTING.md").read_text())}
    of_control = "experiments/families/control"
    assert folders == {
        "experiments/boards", "experiments/brokers/example", "experiments/contentions", "experiments/knobs",
        f"{of_control}/metrics", f"{of_control}/scenarios", f"{of_control}/studies",
    }  # fmt: skip


def test_scenario_contention_board_and_metric_run_as_plain_processes(copy: Path, runner: Runner) -> None:
    swaps = (*SHORT, "PLACEMENT=host", "DEVICE=warm")
    code, said = runner.run("run", "9", *swaps, PYTHONPATH=str(copy))
    assert code == 0, said
    check_bundle(runner.bundle)
    facts = runner.facts()
    (cell,), entry = facts["plan"]["cells"], facts["repetitions"][0]  # of the others each is a re-run
    assert (cell["scenario"], cell["contention"], cell["board"]) == ("9", "wakeups", "warm")
    assert entry["contention"]["cpu_seconds"] > 0
    assert [metric["name"] for metric in facts["metrics"]] == ["T", "L", "R", "O"]
    for row in samples_of(runner.bundle):
        assert row["board"] == "warm"
        assert row["l_us"] == (row["sent_ns"] - row["intended_ns"]) // 1000
    told = subprocess.run(
        [sys.executable, "-m", "analysis", "summarise", str(runner.bundle.resolve())],
        cwd=copy, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert re.search(r"\bL\b", told)


def test_a_studys_arms_swap_whichever_variable(copy: Path, runner: Runner) -> None:
    swaps = ("REPETITIONS=1", "PLACEMENT=host", "DEVICE=none")
    code, said = runner.run("study", "neighbours", *swaps, PYTHONPATH=str(copy))
    assert code == 0, said
    cells = runner.facts()["plan"]["cells"]
    assert [(cell["arm"], cell["contention"], cell["messages"]) for cell in cells] == [
        ("none", None, 40), ("wake-ups", "wakeups", 60),
    ]  # fmt: skip


@pytest.mark.engine
def test_in_containers_they_run_beside_a_knob_that_is_proved(copy: Path, runner: Runner) -> None:
    swaps = (*SHORT, "PLACEMENT=docker", "DEVICE=warm", "PRIORITY=broker=oom:500,waker=nice:5")
    code, said = runner.run("run", "9", *swaps, PYTHONPATH=str(copy))
    assert code == 0, said
    check_bundle(runner.bundle)
    entry = runner.facts()["repetitions"][0]
    shown = {(each["service"], each["knob"]): each for each in entry["proofs"]}
    assert shown["broker", "oom"]["observed"]["value"] == "500"
    assert shown["waker", "priority"]["observed"]["value"] == "SCHED_OTHER nice 5"
    assert shown["waker", "memory"]["holds"]
    code, said = runner.run("run", "9", *SHORT, "PRIORITY=broker=oom:2000", PYTHONPATH=str(copy))
    assert (code, said) == (
        2, "testbed: PRIORITY=oom:2000: oom takes a whole number from -1000 to 1000, e.g. oom:1000\n"
    )  # fmt: skip


@pytest.mark.engine
def test_a_knob_that_does_not_take_refuses_the_run(copy: Path, runner: Runner) -> None:
    file = copy / "experiments" / "knobs" / "oom.py"
    file.write_text(file.read_text().replace('{"oom_score_adj": int(self.argument)}', "{}"))
    code, said = runner.run("run", "0", *SHORT, "PLACEMENT=docker", "PRIORITY=broker=oom:500", PYTHONPATH=str(copy))
    assert code == 3
    assert "broker: oom should be 500 (oom:500) but reads 0; " in said


@pytest.mark.engine
def test_a_broker_is_the_three_files_that_the_page_shows(copy: Path, runner: Runner) -> None:
    short = ("PLACEMENT=docker", "DEVICE=none", *SHORT)
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


def status_of(runner: int, command: bytes) -> str:
    """What the kernel tells of the process with this command, of those that a runner started; empty: none yet."""
    for pid in children(runner):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if Path(f"/proc/{pid}/cmdline").read_bytes() == command:
                return Path(f"/proc/{pid}/status").read_text()
    return ""


@pytest.mark.engine
def test_out_of_its_image_it_runs_as_a_plain_process_of_which_nothing_is_left(copy: Path, runner: Runner) -> None:
    here = {"PYTHONPATH": str(copy)}
    code, said = runner.run("export-brokers", "example", **here)
    assert code == 0, said
    host = ("PLACEMENT=host", "BROKER=example", "DEVICE=none")
    code, said = runner.run("run", "0", *host, *SHORT, "QOS=0,2", **here)
    assert code == 0, said
    check_bundle(runner.bundle)
    facts = runner.facts()
    assert (facts["status"], facts["images"]["broker"]["origin"]) == ("complete", "this host")
    for entry in facts["repetitions"]:
        proofs = {proof["knob"]: proof for proof in entry["proofs"] if proof["service"] == "broker"}
        assert proofs["tcp"]["observed"]["value"] == "nodelay"
        assert proofs["configuration"]["observed"]["value"].startswith("sha256:")
        assert all(proof["holds"] for proof in entry["proofs"])
    verify = [sys.executable, "-m", "analysis", "verify", str(runner.bundle.resolve())]
    subprocess.run(verify, cwd=copy, check=True, capture_output=True)

    process = runner.launch("0", *host, "REPETITIONS=500", "MESSAGES=400", "INTERVALS=5", **here)
    runner.wait_for_a_repetition(process)
    status = eventually(lambda: status_of(process.pid, b"/usr/sbin/mosquitto\0-c\0/broker/nodelay.conf\0"), "a broker")
    # The runner's own child, not one of a monitor: it gets knobs and signals.
    assert f"PPid:\t{process.pid}\n" in status
    assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)
    assert "NoNewPrivs:\t1\n" in status
    if os.geteuid() == 0:
        assert "Uid:\t65534\t65534\t65534\t65534\n" in status
    ours = children(process.pid)
    process.kill()
    process.wait()
    eventually(lambda: not alive(ours), "the end of every process we started")
    assert str(copy) not in Path("/proc/mounts").read_text()

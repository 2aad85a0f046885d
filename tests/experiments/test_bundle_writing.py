# SPDX-License-Identifier: Apache-2.0
"""The bundle survives whatever ends its writer: a kill between any two steps, a disk that fills up at any byte."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from stand import ROOT, facts_of, samples_of

from experiments import families
from experiments.bundle import BundleWriter, columns, typed
from experiments.errors import TestbedError

FAMILY = families.named("control")
COLUMNS = columns(FAMILY)
REPETITIONS, ROWS = 4, 50

WRITER = f"""
import os, resource, signal, sys
from pathlib import Path
from experiments import families
from experiments.bundle import BundleWriter, columns, typed

FAMILY = families.named("control")
COLUMNS = columns(FAMILY)
row = {{name: None for name in COLUMNS}} | {{"scenario": "1", "status": "ok"}}

def write(folder):
    writer = BundleWriter(folder, "test", FAMILY, {{"padding": "x" * 500}})
    for repetition in range({REPETITIONS}):
        # Values that compress badly, so that the file grows.
        rows = [row | {{"sequence": hash((repetition, n)) % 2**40}} for n in range({ROWS})]
        writer.add({{"repetition": repetition}}, rows)
    writer.close("complete", None)

def until_step(step):
    "Die before the step-th operation on a file."
    left = [step]
    def hook(event, arguments):
        if event in ("open", "os.rename", "os.mkdir", "os.symlink", "os.remove"):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(hook)

def until_byte(size):
    "Let no file grow beyond this: a full disk."
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

def killed_at_byte(size):
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    until_byte(size)

kind, limits, results = sys.argv[1], [int(text) for text in sys.argv[2].split(",")], Path(sys.argv[3])
for limit in limits:
    child = os.fork()  # starting Python anew for each would take minutes
    if not child:
        try:
            globals()[kind](limit)
            write(results / str(limit))
        except OSError:
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def write(kind: str, limits: list[int], results: Path) -> list[int]:
    """Write a bundle for each limit; how each writer ended."""
    command = [sys.executable, "-c", WRITER, kind, ",".join(map(str, limits)), str(results)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=120)
    return [int(line) for line in done.stdout.split()]


def check_readable(bundle: Path) -> dict[str, Any]:
    """Whatever is linked as the latest can be read, and never claims more than there is."""
    facts = facts_of(bundle)
    assert all(pq.read_schema(file).equals(typed(COLUMNS)) for file in bundle.glob("samples.parquet"))
    assert not (facts["status"] == "complete" and not (bundle / "samples.parquet").exists())
    rows = len(samples_of(bundle))
    assert rows % ROWS == 0
    assert rows >= ROWS * len(facts["repetitions"])
    if (bundle / "SHA256SUMS").exists():
        # A table that could not be joined stays in parts, and the bundle says so.
        assert facts["status"] == "complete" or facts["reason"] != "not ended"
        check_sums(bundle)
    return facts


def check_sums(bundle: Path) -> None:
    lines = [line.split("  ") for line in (bundle / "SHA256SUMS").read_text().splitlines()]
    listed = {name: digest for digest, name in lines}
    assert set(listed) >= {path.name for path in bundle.glob("*.parquet")} | {"bundle.json"}
    for name, digest in listed.items():
        assert hashlib.sha256((bundle / name).read_bytes()).hexdigest() == digest


def test_a_kill_before_any_step_leaves_a_readable_bundle(tmp_path: Path) -> None:
    steps = list(range(1, 60))
    ended = write("until_step", steps, tmp_path)
    assert ended[0] == -signal.SIGKILL
    assert ended[-1] == 0, "more steps than were tried: raise the limit"
    seen = set()
    for step, code in zip(steps, ended, strict=True):
        latest = tmp_path / str(step) / "latest"
        if latest.exists():
            facts = check_readable(latest)
            seen.add((facts["status"], len(facts["repetitions"])))
            assert code == 0 or facts["status"] == "partial" or not (latest / "SHA256SUMS").exists()
        else:
            assert code == -signal.SIGKILL
    assert {("partial", number) for number in range(REPETITIONS + 1)} <= seen
    assert ("complete", REPETITIONS) in seen


@pytest.mark.parametrize(("kind", "code"), [("until_byte", 1), ("killed_at_byte", -signal.SIGXFSZ)])
def test_a_disk_that_is_full_at_any_byte_leaves_a_readable_bundle(tmp_path: Path, kind: str, code: int) -> None:
    sizes = list(range(500, 12_000, 250))
    ended = write(kind, sizes, tmp_path)
    assert set(ended) == {code, 0}
    partial = 0
    for size in sizes:
        latest = tmp_path / str(size) / "latest"
        if latest.exists():
            partial += check_readable(latest)["status"] == "partial"
    assert partial > 5


def test_the_sums_are_those_of_the_files(tmp_path: Path) -> None:
    writer = BundleWriter(tmp_path, "test", FAMILY, {})
    writer.close("refused", "because")
    facts = json.loads((writer.folder / "bundle.json").read_text())
    assert (facts["status"], facts["reason"], facts["schema_version"]) == ("refused", "because", 2)
    assert facts["ended_utc"] > facts["started_utc"]
    check_sums(writer.folder)


def test_two_runs_in_one_second_get_a_folder_each_and_latest_is_the_second(tmp_path: Path) -> None:
    folders = [BundleWriter(tmp_path, "test", FAMILY, {}).folder for _ in range(3)]
    assert len(set(folders)) == 3
    assert (tmp_path / "latest").resolve() == folders[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["latest", *(folder.name for folder in folders)])


def test_a_repetition_costs_the_same_however_many_went_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    replace = Path.replace

    def counting(scratch: Path, target: Path) -> Path:
        written.append(scratch.stat().st_size)
        return replace(scratch, target)

    writer = BundleWriter(tmp_path, "test", FAMILY, {"plan": {"order": [[0, n] for n in range(300)]}})
    monkeypatch.setattr(Path, "replace", counting)
    costs = []
    for order in range(300):
        written.clear()
        rows = [dict.fromkeys(COLUMNS) | {"sequence": order}] * ROWS
        writer.add({"order": order}, rows, [{"t_ns": order, "service": "broker"}])
        costs.append(sum(written))
    assert max(costs) < 1.1 * min(costs)


def test_a_repetition_that_a_rerun_superseded_says_so_at_once(tmp_path: Path) -> None:
    writer = BundleWriter(tmp_path, "test", FAMILY, {})
    for order in range(2):
        writer.facts["repetitions"].append({"order": order, "counted": True})
        writer.save()
    noisy = writer.facts["repetitions"][0]
    noisy["counted"] = False
    writer.save(noisy)
    assert [entry["counted"] for entry in facts_of(writer.folder)["repetitions"]] == [False, True]
    writer.close("complete", None)
    assert [entry["counted"] for entry in facts_of(writer.folder)["repetitions"]] == [False, True]
    assert not (writer.folder / ".parts").exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with room for one run's beginning; only root may have one."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", folder], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting a file system takes more rights than we have")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(disk: Path) -> None:
    with contextlib.suppress(OSError), (disk / "fill").open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))


def test_a_disk_that_fills_up_is_said_with_the_file_and_the_bundle_is_sealed_all_the_same(small_disk: Path) -> None:
    writer = BundleWriter(small_disk / "results", "scenario-0", FAMILY, {"plan": {}})
    fill(small_disk)
    with pytest.raises(OSError, match="No space left on device") as caught:
        writer.add({"order": 0}, [{"scenario": "0", "sequence": n} for n in range(1000)])
    assert str(caught.value.filename).endswith("samples-000000.parquet")
    writer.close("partial", "the disk is full")
    facts = json.loads((writer.folder / "bundle.json").read_text())
    assert (facts["status"], facts["reason"]) == ("partial", "the disk is full")
    assert facts["repetitions"] == [{"order": 0}], "what was measured last is kept: there was room for the end"
    assert len(samples_of(writer.folder)) == 1000
    assert {path.name for path in writer.folder.iterdir()} == {"bundle.json", "samples.parquet", "SHA256SUMS", "logs"}
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=writer.folder, check=True)


def test_a_disk_that_is_full_before_the_start_is_said_and_nothing_is_left(small_disk: Path) -> None:
    results = small_disk / "results"
    results.mkdir()
    fill(small_disk)
    with pytest.raises(TestbedError, match="scenario-0: No space left on device; nothing was started"):
        BundleWriter(results, "scenario-0", FAMILY, {"plan": {}})
    assert list(results.iterdir()) == []


def test_results_that_are_a_file_and_a_latest_that_is_a_folder_are_said_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(TestbedError, match="file is no folder, and bundles go there; move it away"):
        BundleWriter(tmp_path / "file", "scenario-0", FAMILY, {"plan": {}})
    (tmp_path / "results" / "latest").mkdir(parents=True)
    with pytest.raises(TestbedError, match="latest is not the link that we keep there; move it away"):
        BundleWriter(tmp_path / "results", "scenario-0", FAMILY, {"plan": {}})
    assert [path.name for path in (tmp_path / "results").iterdir()] == ["latest"], "no litter"


def test_each_set_of_conditions_keeps_the_compose_project_that_it_ran_in(tmp_path: Path) -> None:
    writer = BundleWriter(tmp_path, "study", FAMILY, {})
    (writer.folder / "compose.yml").write_text("what the floor was measured in")
    named = [writer.add_compose(project) for project in ("fifo", "none", "fifo")]
    writer.close("complete", None)
    assert named == ["compose.yml", "compose-2.yml", "compose.yml"]
    assert [(writer.folder / name).read_text() for name in named] == ["fifo", "none", "fifo"]
    assert {"compose.yml", "compose-2.yml"} <= set((writer.folder / "SHA256SUMS").read_text().split())

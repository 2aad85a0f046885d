# SPDX-License-Identifier: Apache-2.0
"""What is set on a process is read back from each of its threads: on real ones, as the kernel tells it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from experiments.observer import threads

FOUR_THREADS = """
import subprocess, sys, threading
for _ in range(3):
    threading.Thread(target=threading.Event().wait, daemon=True).start()
child = subprocess.Popen(["sleep", "1000"])
print(child.pid, flush=True)
sys.stdin.read()
child.kill()
"""


@contextlib.contextmanager
def needing_privilege(what: str) -> Iterator[None]:
    try:
        yield
    except PermissionError as error:
        pytest.skip(f"{what} needs CAP_SYS_NICE: {error}")


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """A process with four threads and a child, whose number it has said."""
    command = [sys.executable, "-c", FOUR_THREADS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        yield started
        started.communicate()


@pytest.fixture
def pid(process: subprocess.Popen[str]) -> int:
    assert process.stdout is not None
    process.stdout.readline()
    return process.pid


def seen(pid: int, *names: str) -> set[tuple[object, ...]]:
    """The variants there are among the threads; all four are looked at."""
    found = threads.read(pid)
    assert len(found) == len({thread["tid"] for thread in found}) == 4
    return {tuple(dict(thread)[name] for name in names) for thread in found}


def test_a_thread_that_ends_while_they_are_read_is_none_any_more(pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a Java virtual machine, whose compiler's threads come and go."""
    ended = threads._tids(os.getpid())[0] + 2**22  # beyond every process id
    ours = threads._tids
    monkeypatch.setattr(threads, "_tids", lambda pid: [*ours(pid), ended])
    assert len(threads.read(pid)) == len(threads.states(pid)) == 4
    assert threads.run_ns(pid) > 0
    threads.set_nice(pid, os.getpriority(os.PRIO_PROCESS, pid))
    with pytest.raises(ProcessLookupError):
        threads.read(ended)


def test_a_process_starts_as_ordinary_as_its_parent(pid: int) -> None:
    (mine,) = {(thread["policy"], thread["nice"]) for thread in threads.read(os.getpid())}
    assert seen(pid, "policy", "nice") == {mine}
    assert seen(pid, "priority") == {(0,)}
    assert [thread["cpus"] for thread in threads.read(pid)] == 4 * [sorted(os.sched_getaffinity(0))]
    assert all(thread["name"] for thread in threads.read(pid))


@pytest.mark.parametrize(("policy", "name"), [("fifo", "SCHED_FIFO"), ("rr", "SCHED_RR")])
@pytest.mark.parametrize("priority", [1, 90])
def test_a_real_time_policy_is_read_from_every_thread(pid: int, policy: str, name: str, priority: int) -> None:
    with needing_privilege(name):
        threads.set_policy(pid, policy, priority)
    assert seen(pid, "policy", "priority") == {(name, priority)}
    threads.set_policy(pid, "other", 0)
    assert seen(pid, "policy", "priority") == {("SCHED_OTHER", 0)}


def test_one_thread_left_behind_is_seen(pid: int) -> None:
    with needing_privilege("SCHED_FIFO"):
        threads.set_policy(pid, "fifo", 90)
    os.sched_setscheduler(threads.read(pid)[2]["tid"], os.SCHED_OTHER, os.sched_param(0))
    assert seen(pid, "policy", "priority") == {("SCHED_FIFO", 90), ("SCHED_OTHER", 0)}


def test_reset_on_fork_does_not_hide_the_policy(pid: int) -> None:
    with needing_privilege("SCHED_FIFO"):
        for thread in threads.read(pid):
            os.sched_setscheduler(thread["tid"], os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(7))
    assert seen(pid, "policy", "priority") == {("SCHED_FIFO", 7)}


@pytest.mark.parametrize("nice", [5, 19, -5])
def test_a_nice_value_is_read_from_every_thread(pid: int, nice: int) -> None:
    with needing_privilege(f"nice {nice}"):
        threads.set_nice(pid, nice)
    assert seen(pid, "nice", "policy") == {(nice, "SCHED_OTHER")}


def test_an_affinity_is_read_from_every_thread(pid: int) -> None:
    for cpu in sorted(os.sched_getaffinity(0)):
        threads.set_affinity(pid, [cpu])
        assert [thread["cpus"] for thread in threads.read(pid)] == 4 * [[cpu]]


def test_what_a_process_started_descends_from_it(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    child = int(process.stdout.readline())
    assert threads.descendants(process.pid) == [process.pid, child]
    assert threads.descendants(child) == [child]


def test_a_process_that_is_gone_is_said_so(process: subprocess.Popen[str]) -> None:
    process.communicate()
    for look in (threads.read, threads.descendants, lambda pid: threads.set_nice(pid, 1)):
        with pytest.raises(ProcessLookupError, match=f"process {process.pid} is gone"):
            look(process.pid)

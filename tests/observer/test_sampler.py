# SPDX-License-Identifier: Apache-2.0
"""Resources: what each kernel text means, and that rows are increases."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from trees import PID, PRESSURE, V1_CPU, V2_ALL, Tree

from experiments.observer.sampler import PARSERS, SLOW, Sampler, Scope, Source, Sweep, _idle, _stat

TICK_US = 1_000_000 / os.sysconf("SC_CLK_TCK")

STAT = (
    "cpu  212155 123653 94612 668248 2343 0 4234 385 70 3\n"
    "cpu0 93703 57942 41340 356887 382 0 2150 181 0 0\nintr 9 0\nctxt 44\n"
)
STATUS = (
    "Name:\tmosquitto\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t7\nThreads:\t1\nCpus_allowed_list:\t0\n"
    "Mems_allowed_list:\t0\nvoluntary_ctxt_switches:\t{0}\nnonvoluntary_ctxt_switches:\t{1}\n"
)
# What stock kernels print since 6.6 (Debian 13, x86_64): the switches are not the last lines.
STATUS_WITH_SHADOW_STACKS = STATUS + "x86_Thread_features:\t\nx86_Thread_features_locked:\t\n"
SNMP = (
    "Ip: Forwarding DefaultTTL InReceives\nIp: 1 64 8490\nUdp: InDatagrams\nUdp: 12\n"
    "Tcp: RtoAlgorithm RtoMin RtoMax MaxConn ActiveOpens PassiveOpens AttemptFails EstabResets CurrEstab InSegs OutSegs"
    " RetransSegs InErrs OutRsts InCsumErrors\n"
    "Tcp: 1 200 120000 -1 16556 6928 8487 990 0 4282743 4277522 {0} 0 9217 0\n"
)

RECORDED: list[tuple[str, str, dict[str, float]]] = [
    ("stat", STAT, {"steal_us": 385 * TICK_US, "busy_us": (212155 + 123653 + 94612 + 4234) * TICK_US}),
    ("pressure", PRESSURE, {"psi_cpu_some_us": 680838785}),
    ("cpu.stat", V1_CPU["cpu.stat"], {"throttled_us": 345678.901}),
    ("cpu.stat", V2_ALL["cpu.stat"], {"cpu_us": 1234567, "throttled_us": 345678}),
    ("cpu.stat", "usage_usec 5\nuser_usec 5\nsystem_usec 0\n", {"cpu_us": 5}),
    ("usage_ns", "1234567890\n", {"cpu_us": 1234567.89}),
    ("memory", "7340032\n", {"memory_bytes": 7340032}),
    ("schedstat", "5000000 3000000 17\n", {"cpu_us": 5000, "run_delay_us": 3000}),
    ("run_delay", "5000000 3000000 17\n", {"run_delay_us": 3000}),
    ("status", STATUS.format(44, 7), {"voluntary_switches": 44, "involuntary_switches": 7}),
    ("status", STATUS_WITH_SHADOW_STACKS.format(44, 7), {"voluntary_switches": 44, "involuntary_switches": 7}),
    ("snmp", SNMP.format(1539), {"tcp_retransmits": 1539}),
]


@pytest.mark.parametrize(("kind", "text", "found"), RECORDED)
def test_what_a_kernel_text_means(kind: str, text: str, found: dict[str, float]) -> None:
    assert PARSERS[kind](text.encode()) == pytest.approx(found)


TWO_CPUS = STAT.replace("intr", "cpu1 1 2 3 4 5 6 7 8 0 0\ncpu10 900 0 0 0 0 0 0 0 0 0\nintr")


def test_of_a_big_machine_only_the_cpus_of_the_stand_are_counted() -> None:
    assert _stat(TWO_CPUS.encode(), [1]) == pytest.approx(
        {"steal_us": 8 * TICK_US, "busy_us": (1 + 2 + 3 + 6 + 7) * TICK_US}
    )
    both = _stat(TWO_CPUS.encode(), [0, 1])
    assert both["steal_us"] == pytest.approx((181 + 8) * TICK_US)
    assert _idle(TWO_CPUS.encode(), [1]) == pytest.approx((4 + 5) * TICK_US)
    assert _stat(TWO_CPUS.encode(), [77]) == {}


def test_a_gap_in_the_sweeps_is_told() -> None:
    sampler = Sampler({}, Scope(), containers=False)
    sampler._sweeps = [Sweep(t_ns, [], []) for t_ns in (0, 100_000_000, 5_200_000_000, 5_300_000_000)]
    assert sampler.longest_gap_ms() == 5100.0
    sampler.close()


def test_second_by_second_it_is_told_what_a_service_used_and_what_nobody_did() -> None:
    sampler = Sampler({}, Scope(cpus=[0], pressed=[0]), containers=True)
    sampler.close()
    sources = [Source("host", 0, "stat", -1), Source("stressor", 0, "usage_ns", -1)]
    idle_ticks = round(1e6 / TICK_US)

    def sweep(n: int, used_s: float, idle_s: float) -> Sweep:
        stat = f"cpu0 0 0 0 {round(idle_s * idle_ticks)} 0 0 0 0 0 0\n".encode()
        return Sweep(n * 100_000_000, sources, [stat, str(round(used_s * 1e9)).encode()])

    # A second at work, a second frozen, and a bit.
    sampler._sweeps = [sweep(n, min(n, 10) / 10, max(0, n - 10) / 10) for n in range(23)]
    assert sampler.seconds("stressor") == [pytest.approx((1.0, 1.0, 0.0)), pytest.approx((1.2, 0.0, 1.2))]


def test_every_parser_was_tried() -> None:
    assert {kind for kind, _, _ in RECORDED} == set(PARSERS)


@pytest.mark.parametrize("kind", sorted(PARSERS))
def test_of_a_process_that_ended_nothing_is_known(kind: str) -> None:
    assert PARSERS[kind](b"") == {}


@pytest.mark.parametrize("kind", sorted({"stat", "pressure", "schedstat", "status"}))
def test_this_hosts_own_texts_are_understood(kind: str) -> None:
    file = {"stat": "/proc/stat", "pressure": "/proc/pressure/cpu"}.get(kind, f"/proc/self/{kind}")
    if not Path(file).exists():
        pytest.skip(f"this kernel has no {file}")
    assert PARSERS[kind](Path(file).read_bytes())


def rows_of(sampler: Sampler, service: str) -> list[dict[str, Any]]:
    rows = [row for row in sampler.rows() if row["service"] == service]
    assert [row["t_ns"] for row in rows] == sorted({row["t_ns"] for row in rows})
    return rows


def test_rows_are_increases_and_memory_is_what_it_is(tree: Tree) -> None:
    folder = tree.v2()
    sampler = Sampler({"stressor": [PID]}, Scope(), containers=True)
    for usage, memory in ((1_000, 50), (4_000, 70), (4_500, 60)):
        cpu = f"usage_usec {usage}\nthrottled_usec {10 * usage}\n"
        tree.put(folder, {"cpu.stat": cpu, "memory.current": str(memory)})
        sampler.sweep()
    rows = rows_of(sampler, "stressor")
    assert [row["throttled_us"] for row in rows] == [30_000, 5_000]
    assert [row["memory_bytes"] for row in rows] == [70, 60]
    assert [row["psi_cpu_some_us"] for row in rows] == [0, 0]
    assert all(row["cpu_percent"] > 0 for row in rows)
    assert sampler.totals()["stressor"] == pytest.approx(0.0035)


@pytest.mark.parametrize("host", ["v1", "hybrid", "v2"])
def test_every_kind_of_host_accounts_for_cpu_memory_and_throttling(tree: Tree, host: str) -> None:
    getattr(tree, host)()
    sampler = Sampler({"stressor": [PID]}, Scope(), containers=True)
    sampler.sweep()
    sampler.sweep()
    (row,) = rows_of(sampler, "stressor")
    pressure = set() if host == "v1" else {"psi_cpu_some_us"}
    assert set(row) == {"t_ns", "service", "cpu_percent", "memory_bytes", "throttled_us"} | pressure


def test_what_is_slow_to_read_is_read_every_tenth_time_only(tree: Tree) -> None:
    tree.v2()
    task = tree.proc / str(PID) / "task" / str(PID)
    tree.put(task, {"schedstat": "0 0 1", "status": STATUS.format(0, 0)})
    tree.put(tree.proc / str(PID) / "net", {"snmp": SNMP.format(0)})
    sampler = Sampler({"broker": [PID]}, Scope(["broker"], ["broker"]), containers=True)
    for sweep in range(21):
        tree.put(task, {"schedstat": f"0 {sweep}000 1", "status": STATUS.format(2 * sweep, sweep)})
        tree.put(tree.proc / str(PID) / "net", {"snmp": SNMP.format(3 * sweep)})
        sampler.sweep()
    rows = rows_of(sampler, "broker")
    slow = [(n, row) for n, row in enumerate(rows, 1) if row.keys() & {"voluntary_switches", "tcp_retransmits"}]
    assert [number for number, _ in slow] == [10, 20]
    for _, row in slow:
        switches = (row["voluntary_switches"], row["involuntary_switches"], row["tcp_retransmits"])
        assert switches == (20, 10, 30)
    assert [row["run_delay_us"] for row in rows] == 20 * [1.0]
    assert {"status", "snmp"} == SLOW


def test_threads_of_plain_processes_are_added_up(tree: Tree) -> None:
    tree.v2()
    for tid, us in ((PID, 100), (PID + 1, 10)):
        tree.put(tree.proc / str(PID) / "task" / str(tid), {"schedstat": f"{us}000 0 1", "status": STATUS.format(1, 1)})
    sampler = Sampler({"control-loop": [PID]}, Scope(["control-loop"]), containers=False)
    sampler.sweep()
    for tid, us in ((PID, 400), (PID + 1, 20)):
        tree.put(tree.proc / str(PID) / "task" / str(tid), {"schedstat": f"{us}000 0 1"})
    sampler.sweep()
    assert sampler.totals()["control-loop"] == pytest.approx(310e-6)


def test_a_process_that_ends_on_the_way_never_counts_backwards(tree: Tree) -> None:
    folder = tree.v2()
    sampler = Sampler({"stressor": [PID]}, Scope(), containers=True)
    sampler.sweep()
    (folder / "cpu.stat").write_text("")
    sampler.sweep()
    tree.put(folder, {"cpu.stat": "usage_usec 7\n"})
    sampler.sweep()
    assert [row.get("cpu_percent") for row in rows_of(sampler, "stressor")] == [None, 0]


def test_a_service_that_ended_used_what_it_was_last_seen_with(tree: Tree) -> None:
    folder = tree.v2()
    sampler = Sampler({"stressor": [PID]}, Scope(), containers=True)
    for text in ("usage_usec 1000\n", "usage_usec 4000\n", ""):
        tree.put(folder, {"cpu.stat": text})
        sampler.sweep()
    assert sampler.totals()["stressor"] == pytest.approx(0.003)


def test_a_service_that_is_started_anew_is_sampled_on_with_all_that_it_used(tree: Tree) -> None:
    folder = tree.v2()
    task = tree.proc / str(PID) / "task" / str(PID)
    task.mkdir(parents=True)
    tree.put(tree.proc / str(PID) / "net", {"snmp": SNMP.format(40)})
    sampler = Sampler({"broker": [PID]}, Scope(["broker"], ["broker"]), containers=True)
    for usage in (1_000, 4_000):
        tree.put(folder, {"cpu.stat": f"usage_usec {usage}\n"})
        sampler.sweep()
    tree.put(folder, {"cpu.stat": ""})  # its group went with it
    sampler.sweep()
    tree.put(folder, {"cpu.stat": "usage_usec 700\n"})
    tree.put(task, {"schedstat": "0 5000 1", "status": STATUS.format(3, 1)})
    sampler.follow("broker", [PID])
    for usage in (700, 900):
        tree.put(folder, {"cpu.stat": f"usage_usec {usage}\n"})
        sampler.sweep()
    assert sampler.totals()["broker"] == pytest.approx(0.003 + 0.0009)
    rows = rows_of(sampler, "broker")
    assert [("cpu_percent" in row, row.get("run_delay_us")) for row in rows] == [
        (True, None), (False, None), (True, 5.0), (True, 0.0)
    ]  # fmt: skip
    assert all(row.get("tcp_retransmits", 0) == 0 for row in rows), "the network was there before it"


def test_following_gives_the_descriptors_of_the_life_before_back(tree: Tree) -> None:
    tree.v2()
    sampler = Sampler({"broker": [PID]}, Scope(), containers=True)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    sampler.follow("broker", [PID])
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208
    sampler.close()


def test_descriptors_are_given_back(tree: Tree) -> None:
    tree.v2()
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208
    sampler = Sampler({"broker": [PID]}, Scope(), containers=True)
    assert len(os.listdir("/proc/self/fd")) > before  # noqa: PTH208
    sampler.close()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208

# SPDX-License-Identifier: Apache-2.0
"""Control groups of three kinds of host behind one set of names, and what a knob makes of them."""

from __future__ import annotations

import pytest
from kernel import untouched
from trees import GROUP, PID, SCOPE, Tree

from experiments import knobs
from experiments.knobs import Service
from experiments.knobs.weight import Weight
from experiments.observer.__main__ import Observer
from experiments.observer.cgroup import Cgroup


def test_version_1_keeps_each_controller_in_a_tree_of_its_own(tree: Tree) -> None:
    tree.v1()
    group = Cgroup(PID)
    assert group.folder("cpu") == group.folder("cpuacct") == tree.cgroup / "cpu,cpuacct" / GROUP
    assert group.folder("memory") == tree.cgroup / "memory" / GROUP
    assert all(map(group.is_v1, ("cpu", "cpuacct", "memory")))
    assert group.unified() is None
    assert group.pids() == [4242, 4243]


def test_version_1_is_found_by_the_single_name_as_well(tree: Tree) -> None:
    """Distributions link cpu to cpu,cpuacct; some mount only the link's name."""
    tree.v1()
    (tree.cgroup / "cpu,cpuacct").rename(tree.cgroup / "cpu")
    assert Cgroup(PID).folder("cpu") == tree.cgroup / "cpu" / GROUP


def test_a_hybrid_host_has_its_controllers_in_version_1_and_pressure_in_version_2(tree: Tree) -> None:
    tree.hybrid()
    group = Cgroup(PID)
    assert group.folder("cpu") == tree.cgroup / "cpu" / GROUP
    assert group.folder("cpuacct") == tree.cgroup / "cpuacct" / GROUP
    assert group.is_v1("cpu")
    assert group.unified() == tree.cgroup / "unified" / GROUP


def test_version_2_keeps_everything_in_one_folder(tree: Tree) -> None:
    folder = tree.v2()
    group = Cgroup(PID)
    assert folder == tree.cgroup / SCOPE
    assert {group.folder(name) for name in ("cpu", "cpuacct", "memory")} == {folder}
    assert group.unified() == folder
    assert not group.is_v1("cpu")
    assert group.pids() == [4242, 4243]


@pytest.mark.parametrize("host", ["v1", "hybrid"])
def test_version_1_reads_weight_quota_and_real_time_budget(tree: Tree, host: str) -> None:
    getattr(tree, host)()
    group = Cgroup(PID)
    assert (group.cpu_weight(), group.cpu_quota(), group.rt_budget_us()) == (("shares", 1024), None, 0)
    getattr(tree, host)(cpu__shares="2048", cpu__cfs_quota_us="50000", cpu__rt_runtime_us="400000")
    group = Cgroup(PID)
    assert (group.cpu_weight(), group.cpu_quota(), group.rt_budget_us()) == (("shares", 2048), 0.5, 400_000)


def test_version_2_reads_weight_and_quota_and_hides_real_time_budgets(tree: Tree) -> None:
    tree.v2()
    assert (Cgroup(PID).cpu_weight(), Cgroup(PID).cpu_quota()) == (("weight", 100), None)
    tree.v2(cpu__weight="625\n", cpu__max="50000 100000\n")
    group = Cgroup(PID)
    assert (group.cpu_weight(), group.cpu_quota()) == (("weight", 625), 0.5)
    assert group.rt_budget_us() is None
    assert group.rt_files_above() == []


@pytest.mark.parametrize("host", ["v1", "hybrid"])
def test_version_1_reads_the_limit_of_memory(tree: Tree, host: str) -> None:
    getattr(tree, host)()
    assert Cgroup(PID).memory_limit_bytes() is None
    tree.group("memory/" + GROUP, {"memory.limit_in_bytes": "536870912\n"})
    assert Cgroup(PID).memory_limit_bytes() == 1 << 29


def test_version_2_reads_the_limit_of_memory(tree: Tree) -> None:
    tree.v2()
    assert Cgroup(PID).memory_limit_bytes() is None
    tree.v2(memory__max="536870912\n")
    assert Cgroup(PID).memory_limit_bytes() == 1 << 29


def test_a_group_without_the_controller_has_no_weight_and_no_limit(tree: Tree) -> None:
    """As the root of version 2 has none, and a login session."""
    tree.process(cgroup="0::/user.slice/session-1.scope\n")
    tree.group("user.slice/session-1.scope", {"cgroup.procs": "4242\n"})
    group = Cgroup(PID)
    assert (group.cpu_weight(), group.cpu_quota(), group.memory_limit_bytes()) == (None, None, None)


@pytest.mark.parametrize("host", ["v1", "hybrid", "v2"])
def test_a_container_nobody_touched_reads_as_untouched_on_every_host(tree: Tree, host: str) -> None:
    getattr(tree, host)()
    state = untouched(weight=Cgroup(PID).cpu_weight(), quota=Cgroup(PID).cpu_quota())
    service = Service("broker", (0,))
    for field in ("weight", "quota"):
        kind = knobs.fields()[field]
        assert kind.observed(state) == kind.untouched(service)


def test_a_weight_that_cannot_be_read_is_not_taken_for_the_default(tree: Tree) -> None:
    tree.v2(cpu__weight="what?\n")
    with pytest.raises(OSError, match=r"cpu\.weight cannot be read"):
        Cgroup(PID).cpu_weight()


@pytest.mark.parametrize(("weight", "by"), [(625, "runc up to 1.3"), (942, "runc since")])
def test_a_weight_is_known_by_either_conversion_to_version_2(tree: Tree, weight: int, by: str) -> None:
    asked = Weight("16384")
    tree.v2(cpu__weight=str(weight))
    assert asked.agrees(Weight.observed(untouched(weight=Cgroup(PID).cpu_weight()))), by
    for wrong in (100, weight - 1, weight + 1, 16384):
        tree.v2(cpu__weight=str(wrong))
        assert not asked.agrees(Weight.observed(untouched(weight=Cgroup(PID).cpu_weight())))


def budgets(tree: Tree, *groups: str) -> list[str]:
    return [(tree.cgroup / "cpu" / group / "cpu.rt_runtime_us").read_text().strip() for group in groups]


def test_a_real_time_budget_is_given_from_above_put_back_and_the_root_left_alone(tree: Tree) -> None:
    tree.hybrid()
    observer = Observer()
    observer._give_rt_budget(Cgroup(PID), 400_000)
    assert budgets(tree, "", "docker", GROUP) == ["0", "900000", "400000"]
    observer.release()
    assert budgets(tree, "", "docker") == ["0", "0"]


def test_every_group_above_gets_its_own_budget_back(tree: Tree) -> None:
    """As in an engine that runs in a container itself."""
    inner = "docker/outer/docker/0123abcd"
    for group, budget_us in (
        ("docker", "950000"),
        ("docker/outer", "5000"),
        ("docker/outer/docker", "0"),
        (inner, "0"),
    ):
        tree.group("cpu/" + group, {"cpu.rt_runtime_us": budget_us})
    tree.process(cgroup=f"1:cpu:/{inner}\n")
    observer = Observer()
    for given_us in (400_000, 800_000):
        observer._give_rt_budget(Cgroup(PID), given_us)
    above = ("docker", "docker/outer", "docker/outer/docker")
    assert budgets(tree, *above, inner) == ["950000", "900000", "900000", "800000"]
    observer.release()
    assert budgets(tree, *above) == ["950000", "5000", "0"]


def test_on_version_2_no_budget_is_touched(tree: Tree) -> None:
    folder = tree.v2()
    before = sorted(folder.parent.rglob("*"))
    Observer()._give_rt_budget(Cgroup(PID), 400_000)
    assert sorted(folder.parent.rglob("*")) == before

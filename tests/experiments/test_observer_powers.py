# SPDX-License-Identifier: Apache-2.0
"""What the observer may do beyond reading follows from the knobs of the whole run."""

from __future__ import annotations

import pytest

from experiments.placements.docker import Powers
from experiments.plan import of_scenario
from experiments.variables import Settings


def needed(priority: str, scenario: str = "1") -> Powers:
    settings = Settings.parse({"PRIORITY": priority, "INTERVALS": "20"})
    return Powers.needed(of_scenario(scenario, settings, "0123abcd").cells[0].conditions)


@pytest.mark.parametrize("priority", ["none", "broker=weight:2048", "broker=quota:0.5", "broker=flags"])
def test_what_the_engine_sets_takes_no_power_of_the_observer(priority: str) -> None:
    assert needed(priority) == Powers()
    assert Powers().capabilities() == []
    assert Powers().environment() == {"OBSERVER_CGROUPS": "ro"}


@pytest.mark.parametrize("priority", ["broker=nice:-5", "control-loop=cpus:0"])
def test_what_is_set_on_running_processes_takes_sys_nice_and_no_control_group(priority: str) -> None:
    assert needed(priority) == Powers(sets=True)
    assert needed(priority).capabilities() == ["SYS_NICE"]


@pytest.mark.parametrize("priority", ["broker=fifo:90", "pi=rr:10"])
def test_a_real_time_policy_takes_a_budget_as_well(priority: str) -> None:
    assert needed(priority) == Powers(sets=True, writes_groups=True)
    assert needed(priority).environment() == {"OBSERVER_CGROUPS": "rw"}


def test_powers_are_those_of_all_conditions_together() -> None:
    assert needed("broker=nice:-5") | needed("none") == Powers(sets=True)
    assert needed("none") | needed("broker=fifo:90") == needed("broker=fifo:90")

# SPDX-License-Identifier: Apache-2.0
"""The noise rule, set before anything is measured: what makes a repetition noisy, and what does not."""

from __future__ import annotations

from typing import Any

import pytest

from experiments import noise

QUIET: dict[str, Any] = {
    "steal_percent": 0.4,
    "foreign_cpu_percent": 2.0,
    "lateness_us": {"p50": 50, "p99": 120, "max": 9e9},
}
LIMITS = list(noise.RULE.items())


def measured(name: str, value: float | None) -> dict[str, Any]:
    changes = {"lateness_us": {"p50": 1, "p99": value, "max": value}} if name == "lateness_p99_us" else {name: value}
    return QUIET | changes


@pytest.mark.parametrize("disturbed", [False, True])
def test_a_quiet_repetition_gives_no_reason(disturbed: bool) -> None:
    assert noise.reasons(QUIET, disturbed=disturbed) == []


@pytest.mark.parametrize(("name", "limit"), LIMITS)
def test_a_limit_may_be_met_and_not_passed(name: str, limit: float) -> None:
    assert noise.reasons(measured(name, limit), disturbed=False) == []
    (reason,) = noise.reasons(measured(name, limit + 1), disturbed=False)
    assert reason == f"{name} {limit + 1:g} is above {limit:g}"


@pytest.mark.parametrize(("name", "limit"), LIMITS)
def test_under_contention_a_late_control_loop_is_what_is_measured_and_the_rest_is_noise(
    name: str, limit: float
) -> None:
    found = noise.reasons(measured(name, 10 * limit), disturbed=True)
    assert len(found) == (name != "lateness_p99_us")


@pytest.mark.parametrize("name", noise.RULE)
def test_what_the_kernel_does_not_count_is_no_noise(name: str) -> None:
    assert noise.reasons(measured(name, None), disturbed=False) == []


def test_every_reason_is_given() -> None:
    loud = {
        "steal_percent": 90.0, "foreign_cpu_percent": 90.0, "observer_gap_ms": 5000.0, "lateness_us": {"p99": 1e6},
    }  # fmt: skip
    assert {reason.split()[0] for reason in noise.reasons(loud, disturbed=False)} == set(noise.RULE)

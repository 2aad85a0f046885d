# SPDX-License-Identifier: Apache-2.0
"""From rows to samples: whatever the control loop saw, the sums hold. And how late requests left."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.noise import lateness
from experiments.plan import Plan, of_scenario
from experiments.samples import counts, samples
from experiments.variables import Settings

TIMEOUT_MS = 50
WARMUP = 2
PLAN: Plan = of_scenario("1", Settings(intervals=(20,), warmup=WARMUP, timeout_ms=TIMEOUT_MS), "0123abcd")

Row = list[Any]


@st.composite
def some_rows(draw: st.DrawFn) -> list[Row]:
    """Rows as clients.schedule makes them: one a cycle, and any number of duplicates of answered ones."""
    rows: list[Row] = []
    for sequence in range(draw(st.integers(0, 12))):
        intended_ns = 10**9 + sequence * 20_000_000
        sent_ns = intended_ns + draw(st.integers(0, 10**7))
        t_ns = draw(st.integers(1, 2 * TIMEOUT_MS * 1_000_000))
        r_us = draw(st.integers(0, t_ns // 1000))
        received_ns = sent_ns + t_ns
        answer = [r_us, draw(st.sampled_from(["ok", "board-timeout", "board-error"])), "model"]
        fate = draw(st.sampled_from(["answered", "answered", "silent", "not sent"]))
        if fate != "answered":
            rows.append([sequence, intended_ns, sent_ns if fate == "silent" else None, None, None, None, None, False])
            continue
        rows.append([sequence, intended_ns, sent_ns, received_ns, *answer, False])
        again = [sequence, intended_ns, sent_ns, received_ns + 1, *answer, True]
        rows += [again] * draw(st.integers(0, 2))
    return draw(st.permutations(rows))


def made(rows: list[Row]) -> list[dict[str, Any]]:
    return samples(PLAN, PLAN.cells[0], 3, rows)


@given(some_rows())
def test_each_cycle_is_in_exactly_one_of_ok_late_and_lost(rows: list[Row]) -> None:
    done = made(rows)
    cycles = [sample["sequence"] for sample in done if sample["status"] != "duplicate"]
    assert cycles == sorted({row[0] for row in rows})
    tally = counts(done)
    assert tally["offered"] == tally["ok"] + tally["late"] + tally["lost"] == sum(c >= WARMUP for c in cycles)
    assert tally["duplicate"] == sum(row[7] and row[0] >= WARMUP for row in rows)
    assert tally["sent"] == sum(row[2] is not None and not row[7] and row[0] >= WARMUP for row in rows)


@given(some_rows())
def test_o_is_t_minus_r_exactly_and_t_is_the_clients_own(rows: list[Row]) -> None:
    for sample in made(rows):
        if sample["status"] == "lost":
            assert (sample["t_us"], sample["r_us"], sample["o_us"]) == (None, None, None)
            assert sample["cause"] in {"not sent", "no answer", "board timeout", "board error"}
            continue
        assert sample["cause"] is None
        assert sample["o_us"] == sample["t_us"] - sample["r_us"]
        assert abs(1000 * sample["t_us"] - (sample["received_ns"] - sample["sent_ns"])) <= 500
        if sample["status"] != "duplicate":
            assert (sample["status"] == "late") == (sample["t_us"] > TIMEOUT_MS * 1000)


@given(some_rows())
def test_a_sample_says_where_it_comes_from(rows: list[Row]) -> None:
    for sample in made(rows):
        assert (sample["scenario"], sample["interval_ms"], sample["qos"], sample["repetition"]) == ("1", 20, 0, 3)
        assert sample["warmup"] == (sample["sequence"] < WARMUP)


@pytest.mark.parametrize(
    ("sent_ns", "received_ns", "outcome", "status", "cause"),
    [
        (None, None, None, "lost", "not sent"), (0, None, None, "lost", "no answer"),
        (0, 5_000_000, "board-timeout", "lost", "board timeout"), (0, 5_000_000, "board-error", "lost", "board error"),
        (0, 50_000_499, "ok", "ok", None), (0, 50_000_500, "ok", "late", None),
    ],
)  # fmt: skip
def test_what_becomes_of_a_cycle(
    sent_ns: int | None, received_ns: int | None, outcome: str | None, status: str, cause: str | None
) -> None:
    (sample,) = made([[5, 0, sent_ns, received_ns, 4400, outcome, "model", False]])
    assert (sample["status"], sample["cause"]) == (status, cause)


def test_cycles_that_were_never_told_of_stand_where_the_schedule_had_them() -> None:
    """Told of: cycle 1 of 5. It ended 1 ns before cycle 3 was due, and at the moment of cycle 4 in the second case."""
    plan = of_scenario("1", Settings(intervals=(20,), warmup=WARMUP, messages=3, timeout_ms=TIMEOUT_MS), "0123abcd")
    row = [1, 1_020_000_000, 1_020_000_500, None, None, None, None, False]
    for ended_ns, causes in ((1_059_999_999, "rrss"), (1_080_000_000, "rrrr")):
        done = samples(plan, plan.cells[0], 3, [row], ended_ns)
        assert [each["sequence"] for each in done] == [0, 1, 2, 3, 4]
        assert [each["intended_ns"] for each in done] == [10**9 + n * 20_000_000 for n in range(5)]
        told = {"r": "not reported", "s": "not sent"}
        assert [each["cause"] for each in done] == [
            told[causes[0]], "no answer", *[told[cause] for cause in causes[1:4]],
        ]  # fmt: skip
        assert {each["status"] for each in done} == {"lost"}


def test_of_a_repetition_that_told_of_nothing_not_even_the_schedule_is_known() -> None:
    plan = of_scenario("1", Settings(intervals=(20,), warmup=WARMUP, messages=3), "0123abcd")
    done = samples(plan, plan.cells[0], 3, [], 7)
    assert [(each["sequence"], each["intended_ns"], each["cause"]) for each in done] == [
        (sequence, None, "not reported") for sequence in range(5)
    ]
    assert counts(done)["lost"] == 3


def late_rows(late_us: list[int]) -> list[dict[str, Any]]:
    return [{"intended_ns": 7, "sent_ns": 7 + 1000 * us, "warmup": False, "status": "ok"} for us in late_us]


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=300))
def test_lateness_is_by_nearest_rank(late_us: list[int]) -> None:
    ordered = sorted(late_us)

    def rank(share: Fraction) -> int:
        return ordered[-(-share * len(ordered) // 1) - 1]

    assert lateness(late_rows(late_us)) == {
        "p50": rank(Fraction(1, 2)), "p99": rank(Fraction(99, 100)), "max": ordered[-1],
    }  # fmt: skip


@pytest.mark.parametrize("hundreds", [1, 3, 7, 11, 13, 100])
def test_the_99th_percentile_of_whole_hundreds_is_no_rounding_error_off(hundreds: int) -> None:
    count = 100 * hundreds
    assert lateness(late_rows(list(range(1, count + 1))))["p99"] == 99 * hundreds


def test_lateness_leaves_out_what_was_not_sent_warm_up_and_duplicates() -> None:
    rows = [
        *late_rows([1, 2, 3]),
        {"intended_ns": 0, "sent_ns": None, "warmup": False, "status": "lost"},
        {"intended_ns": 0, "sent_ns": 10**9, "warmup": True, "status": "ok"},
        {"intended_ns": 0, "sent_ns": 10**9, "warmup": False, "status": "duplicate"},
    ]
    assert lateness(rows)["max"] == 3
    assert lateness([]) == {"p50": None, "p99": None, "max": None}

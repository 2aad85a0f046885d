# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from experiments.families.control import path

STEPS_NS = st.lists(st.integers(1_000, 50_000_000), min_size=5, max_size=5)


def sample(**changes: Any) -> dict[str, Any]:
    kept = {"scenario": "1", "arm": "", "interval_ms": 20, "qos": 0, "repetition": 2, "sequence": 7, "warmup": False}
    return kept | {"status": "ok", "sent_ns": 0, "received_ns": 0, "r_us": 0, "o_us": 0} | changes


@given(steps_ns=STEPS_NS, share=st.floats(0, 1))
def test_the_parts_of_a_cycle_add_up_to_its_o(steps_ns: list[int], share: float) -> None:
    times = [5_000_000_000]
    for step in steps_ns:
        times.append(times[-1] + step)
    t_us, r_us = (times[5] - times[0] + 500) // 1000, int(share * steps_ns[2] / 1000)
    messages = [[times[1 + i], *where, 2, 7] for i, where in enumerate(
        [("in", "request"), ("out", "request"), ("in", "answer"), ("out", "answer")])]  # fmt: skip
    parts = path.split(
        sample(sent_ns=times[0], received_ns=times[5], r_us=r_us, o_us=t_us - r_us), path.passed(messages, 2)
    )
    assert parts is not None
    assert abs(sum(parts[name] for name in path.PARTS) - parts["o_us"]) < 2


def test_a_cycle_that_was_not_seen_whole_is_left_out() -> None:
    messages = [[10, "in", "request", 2, 7], [20, "out", "request", 2, 7], [30, "in", "answer", 2, 7]]
    assert path.split(sample(), path.passed(messages, 2)) is None


def test_of_a_message_that_passed_twice_the_first_counts_and_other_repetitions_do_not() -> None:
    messages = [[5, "in", "request", 1, 7], [10, "in", "request", 2, 7], [20, "in", "request", 2, 7]]
    assert path.passed(messages, 2) == {("in", "request", 7): 10}

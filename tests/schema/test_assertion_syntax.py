# SPDX-License-Identifier: Apache-2.0
"""What may be asserted of a run, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema.assertions import Assertion, parse


def test_metrics_statistics_operators_and_units_are_read() -> None:
    assert parse("O.p99<5ms, misses<=1%,lost.burst<3,T.mean>250us,R.median >= 1.5 s") == (
        Assertion("O.p99<5ms", "O", "p99", below=True, limit=5000),
        Assertion("misses<=1%", "missed", "share_percent", below=True, limit=1),
        Assertion("lost.burst<3", "lost", "burst", below=True, limit=3),
        Assertion("T.mean>250us", "T", "avg", below=False, limit=250),
        Assertion("R.median >= 1.5 s", "R", "p50", below=False, limit=1_500_000),
    )
    assert parse("T.p99.9<1s")[0].statistic == "p99.9"
    assert parse("recovery<500ms") == (Assertion("recovery<500ms", "recovery", "p50", below=True, limit=500_000),)
    assert parse("recovery.median<1s")[0].repetitions == 6


def test_an_arm_of_a_study_may_be_named_in_front() -> None:
    assert parse("fifo both:O.p99<5ms,link:cut:1s: lost<2%") == (
        Assertion("fifo both:O.p99<5ms", "O", "p99", below=True, limit=5000, arm="fifo both"),
        Assertion("link:cut:1s: lost<2%", "lost", "share_percent", below=True, limit=2, arm="link:cut:1s"),
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "is no assertion"), ("O.p99<5", "needs a unit"), ("O.p99<5%", "needs a unit"), ("O.max<5ms", "statistics"),
        ("O<5ms", "statistics"), ("X.p99<5ms", "allowed are T, R, O"), ("misses<1", "misses<1%"),
        ("misses<101%", "misses<1%"), ("lost.p99<1%", "lost<1%"), ("O.p99==5ms", "is no assertion"),
        ("O.p99<-5ms", "is no assertion"), ("O.p99<5ms;misses<1%", "is no assertion"),
        ("O.p99<5ms,", "is no assertion"), (":O.p99<5ms", "is no assertion"), ("fifo:p<5ms", "allowed are T, R, O"),
        ("recovery.p99<1s", "statistics of recovery"), ("recovery<5%", "needs a unit"),
    ],
)  # fmt: skip
def test_nonsense_is_told_with_what_is_allowed(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        parse(text)


def test_a_percentile_says_how_many_cycles_it_needs() -> None:
    assert [parse(f"T.{name}<1s")[0].cycles for name in ("avg", "p50", "p90", "p99", "p99.9")] == [1, 5, 29, 299, 2995]


@given(st.text(max_size=40))
def test_whatever_is_given_is_read_or_refused(text: str) -> None:
    try:
        assert all(one.limit >= 0 for one in parse(text))
    except ValueError as error:
        assert str(error)  # noqa: PT017 - the refusal itself is what is looked at


def test_the_metrics_that_may_be_named_are_the_callers() -> None:
    assert parse("RTT2.p99<5ms,RTT2_intended.avg<1s", ("RTT2", "RTT2_intended"))[1].metric == "RTT2_intended"
    with pytest.raises(ValueError, match="allowed are RTT2, lost"):
        parse("O.p99<5ms", ("RTT2",))

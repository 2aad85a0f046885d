# SPDX-License-Identifier: Apache-2.0
"""When a run with PRECISION looks, and what each look may spend."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schema.looks import FEWEST, USUAL_REPETITIONS, looks


def test_the_usual_run_looks_after_a_quarter_half_and_all_of_its_blocks() -> None:
    assert [look.repetitions for look in looks(USUAL_REPETITIONS)] == [10, 20, 40]


@given(st.integers(FEWEST, 10_000))
def test_looks_come_in_order_end_with_the_run_and_spend_the_whole_chance_of_error(repetitions: int) -> None:
    planned = looks(repetitions)
    at = [look.repetitions for look in planned]
    assert at == sorted(set(at))
    assert at[0] >= FEWEST
    assert at[-1] == repetitions
    assert all(look.share > 0 for look in planned)
    assert sum(look.share for look in planned) == pytest.approx(1, abs=1e-5)

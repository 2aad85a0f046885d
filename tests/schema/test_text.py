# SPDX-License-Identifier: Apache-2.0
"""What a stranger wrote can be read, and can do nothing else."""

import io

import pytest
from rich.table import Table

from schema.text import SHORT, Terminal, printable, shown

EVIL = "a\x1b]0;owned\x07b\x9b31m\u202ec\ud800"


@pytest.mark.parametrize("text", ["ms", "µs, Cliff’s δ → 5 %", ""])
def test_what_prints_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


def test_what_does_not_print_is_shown_as_its_escape() -> None:
    assert printable(EVIL) == r"a\x1b]0;owned\x07b\x9b31m\u202ec\ud800"
    assert printable("two\nlines") == r"two\nlines"


@pytest.mark.parametrize(
    "value", ["x" * 10_000, ["x"] * 10_000, {"a": {"b": [None] * 999}}, 10**300, None, float("nan")]
)
def test_a_value_in_an_error_is_short_and_on_one_line(value: object) -> None:
    assert len(shown(value)) <= SHORT + 3
    assert shown(value).isprintable()


def test_a_terminal_shows_escapes_in_lines_and_in_tables() -> None:
    out = io.StringIO()
    console = Terminal(file=out, width=200, force_terminal=True, markup=False, highlight=False)
    table = Table(EVIL, title=EVIL)
    table.add_row(EVIL)
    console.print(EVIL)
    console.print(table)
    assert out.getvalue().count(r"\x1b]0;owned\x07") == 4
    assert "\x07" not in out.getvalue()
    assert "\x1b]" not in out.getvalue()

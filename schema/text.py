# SPDX-License-Identifier: Apache-2.0
"""Text that a stranger may have written, made safe to show: no escape sequence reaches a terminal."""

from __future__ import annotations

import json
import sys
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

SHORT = 60


def printable(text: str, keep: str = "") -> str:
    """Return the text with unprintable characters (control, bidi, surrogate, …) but those in `keep` escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else c.encode("unicode_escape").decode("ascii") for c in text)


def shown(value: Any) -> str:
    """Return a value of any kind as short printable text, for an error message."""
    text = printable(value if isinstance(value, str) else json.dumps(value, default=repr, ensure_ascii=False))
    short = text if len(text) <= SHORT else f"{text[:SHORT]}…"
    return f"'{short}'" if isinstance(value, str) else short


class Terminal(Console):
    """A console that escapes unprintable characters in all it prints, lines and tables alike."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Escape unprintable characters; every string that rich shows comes through here. Newlines and tabs stay."""
        return super().render_str(printable(text, "\n\t"), **options)


def complain(program: str, error: Exception | str, stream: TextIO | None = None) -> None:
    """Print an error as one line on standard error."""
    print(f"{program}: {printable(str(error))}", file=stream or sys.stderr)

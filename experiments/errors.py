# SPDX-License-Identifier: Apache-2.0
"""How a run can fail to be a measurement, and the exit code of each."""

from __future__ import annotations

_LONGEST = 200


class TestbedError(Exception):
    """One clear line for the user; `exit_code` is the program's."""

    exit_code = 1
    __test__ = False


class BadInputError(TestbedError):
    """A value that is not allowed: said before anything starts."""

    exit_code = 2

    def __init__(self, name: str, value: str, allowed: str) -> None:
        super().__init__(f"{_shown(name)}={_shown(value)}: {allowed}")


def _shown(text: str) -> str:
    """Part of a line that a terminal shows as it is, and that is no longer than a reader bears."""
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


class StandError(TestbedError):
    """The stand does not come up, or broke; says what was seen and what to do."""


class RequestFailedError(StandError):
    """A service of the stand could not do what was asked of it, and is there to say so."""


class RefusedError(TestbedError):
    """A condition could not be had as asked; nothing is measured under a wrong label."""

    exit_code = 3

# SPDX-License-Identifier: Apache-2.0
"""How a run can fail to be a measurement, and the exit code of each."""

from __future__ import annotations


class TestbedError(Exception):
    """One clear line for the user; `exit_code` is the program's."""

    exit_code = 1
    __test__ = False


class BadInputError(TestbedError):
    """A value that is not allowed: said before anything starts."""

    exit_code = 2

    def __init__(self, name: str, value: str, allowed: str) -> None:
        super().__init__(f"{name}={value}: {allowed}")


class StandError(TestbedError):
    """The stand does not come up, or broke; says what was seen and what to do."""


class RefusedError(TestbedError):
    """A condition could not be had as asked; nothing is measured under a wrong label."""

    exit_code = 3

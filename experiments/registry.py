# SPDX-License-Identifier: Apache-2.0
"""Kinds that register themselves: one small file in a folder is one more board, broker, knob or contention."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

from experiments.errors import BadInputError

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Choice:
    """A kind and its argument, as users write them: `KIND` or `KIND:ARGUMENT`."""

    argument: str = ""
    kind: ClassVar[str]

    def __str__(self) -> str:
        return f"{self.kind}:{self.argument}" if self.argument else self.kind

    def check(self) -> None:
        """Raise BadInputError where the argument is not allowed."""


Chosen = TypeVar("Chosen", bound=Choice)


def read(variable: str, text: str, kinds: Mapping[str, type[Chosen]], allowed: str) -> Chosen:
    """Read the value of a variable; raise BadInputError, with `allowed` where there is no such kind."""
    kind, _, argument = text.partition(":")
    if kind not in kinds:
        raise BadInputError(variable, text, allowed)
    chosen = kinds[kind](argument)
    chosen.check()
    return chosen


class Registry(Generic[Kind]):
    """The kinds of one package by name, found by importing every module in it."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._kinds: dict[str, Kind] = {}

    def add(self, name: str, kind: Kind) -> Kind:
        """Register a kind; called by the kind's own module."""
        self._kinds[name] = kind
        return kind

    def all(self) -> dict[str, Kind]:
        """Every kind by name, in the order of names."""
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            importlib.import_module(f"{self._package}.{module.name}")
        return dict(sorted(self._kinds.items()))

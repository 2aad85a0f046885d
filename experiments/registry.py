# SPDX-License-Identifier: Apache-2.0
"""Kinds that register themselves: one small file in a folder is one more board, broker, knob or contention."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Generic, TypeVar

Kind = TypeVar("Kind")


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

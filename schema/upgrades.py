# SPDX-License-Identifier: Apache-2.0
"""Upgrades of bundle.json from older schema versions: a function from each version to the next."""

from collections.abc import Callable, Mapping
from typing import Any

Document = dict[str, Any]


def _from_1(document: Document) -> Document:
    """Add family, axes and metrics, which version 1 left out, since it had a single family."""
    axes = [
        {"name": "interval_ms", "words": "a cycle every {} ms", "short": "{} ms"},
        {"name": "qos", "words": "QoS {}", "short": "QoS {}"},
    ]
    metrics = [
        {"name": "T", "column": "t_us", "words": "from request to answer, at the control loop"},
        {"name": "R", "column": "r_us", "words": "the board's share, at the Pi", "answered_only": True},
        {
            "name": "O", "column": "o_us", "words": "network, broker and both clients", "difference": ["T", "R"],
        },
    ]  # fmt: skip
    return document | {"family": "control", "axes": axes, "metrics": metrics}


UPGRADES: Mapping[int, Callable[[Document], Document]] = {1: _from_1}


def upgraded(document: Document, version: int) -> Document:
    """Return the document as of `version`; raise LookupError where its own version is unknown."""
    while (current := document["schema_version"]) < version:
        document = UPGRADES[current](document) | {"schema_version": current + 1}
    return document

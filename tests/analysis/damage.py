# SPDX-License-Identifier: Apache-2.0
"""A generator of damaged bundles: what a stranger, a bad disk or a later version could hand us."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import strategies as st

EVIL = (
    "", " ", "\x00", "\x1b]0;owned\x07", "\x1b[2J", "a\nb", "\u202egnp.exe", "\U000e0001", "é\u0301", "<!--<script>",
    "</script><b>", "$\\frac{1}{0}$", "$x", "../../etc/passwd", "/etc/passwd", "-rf", "=cmd|x", "|", "[bold]", "%s{0}",
    "x" * 5000,
)  # fmt: skip
NUMBERS = (-1, 0, 1, 2, 7, 10**6, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 0.5, 1e308, -0.0)

scalars = st.one_of(
    st.none(), st.booleans(), st.sampled_from(NUMBERS), st.integers(), st.sampled_from(EVIL), st.text(max_size=20)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@dataclass(frozen=True)
class Edit:
    """One change to a document: what is at `where` (a path by position) is dropped, doubled, buried or replaced."""

    how: str
    where: int
    value: Any

    def apply(self, document: Any) -> Any:
        places = list(_places(document))
        parent, key = places[self.where % len(places)]
        if self.how == "drop":
            del parent[key]
        elif self.how == "double" and isinstance(parent, list):
            parent.insert(key, copy.deepcopy(parent[key]))
        elif self.how == "bury":
            for _ in range(50):
                parent[key] = [parent[key]]
        elif self.how == "rename" and isinstance(parent, dict):
            parent[str(self.value)] = parent.pop(key)
        else:
            parent[key] = self.value


edits = st.lists(
    st.builds(Edit, st.sampled_from(["drop", "replace", "replace", "replace", "double", "bury", "rename"]),
              st.integers(0, 10**6), values),
    min_size=1, max_size=3,
)  # fmt: skip


def _places(node: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value below `node`."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [place for key, child in items for place in [(node, key), *_places(child)]]


def edited(document: Any, changes: list[Edit]) -> str:
    """bundle.json with these changes, as a stranger would write it."""
    document = copy.deepcopy(document)
    for change in changes:
        if _places(document):
            change.apply(document)
    return json.dumps(document)


FileDamage = Callable[[Path], object]


def _overwrite(share: float, junk: bytes) -> FileDamage:
    def damage(path: Path) -> None:
        content = bytearray(path.read_bytes())
        at = int(share * len(content))
        content[at : at + len(junk)] = junk
        path.write_bytes(content)

    return damage


def _cut(share: float) -> FileDamage:
    def damage(path: Path) -> None:
        os.truncate(path, int(share * path.stat().st_size))

    return damage


def _column(name: str, value: object) -> FileDamage:
    def damage(path: Path) -> None:
        pl.read_parquet(path).with_columns(pl.lit(value).alias(name)).write_parquet(path)

    return damage


def _replaced_by(what: Callable[[Path], object]) -> FileDamage:
    def damage(path: Path) -> None:
        path.unlink()
        what(path)

    return damage


shares = st.floats(0, 1, allow_nan=False)
columns = st.sampled_from(
    ["scenario", "interval_ms", "repetition", "sequence", "warmup", "sent_ns", "t_us", "o_us", "status"]
)
file_damages = st.one_of(
    st.builds(_cut, shares),
    st.builds(_overwrite, shares, st.binary(min_size=1, max_size=40)),
    st.builds(_column, columns, scalars.filter(lambda v: not isinstance(v, int) or abs(v) < 2**63)),
    st.sampled_from([
        _replaced_by(lambda _: None),
        _replaced_by(lambda path: path.symlink_to("/etc/passwd")),
        _replaced_by(lambda path: path.symlink_to(path.name)),
        _replaced_by(lambda path: path.mkdir()),
        _replaced_by(os.mkfifo),
        _replaced_by(lambda path: path.write_bytes(b"")),
        _replaced_by(lambda path: path.write_bytes(b"PAR1" * 100)),
        _replaced_by(lambda path: pl.DataFrame({"x": [1]}).write_parquet(path)),
    ]),
)  # fmt: skip
files = st.sampled_from(["bundle.json", "samples.parquet", "resources.parquet", "SHA256SUMS", "compose.yml"])

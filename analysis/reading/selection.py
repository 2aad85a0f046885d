# SPDX-License-Identifier: Apache-2.0
"""Names a part of a bundle on the command line: `PATH`, `PATH#ARM`, `PATH#scenario=2,interval_ms=20,qos=0,arm=fifo`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.reading.bundle import Bundle, BundleError, Cell
from analysis.reading.family import Family


@dataclass(frozen=True)
class Selection:
    """A bundle and the cells selected from it; `text` is the selection as the user wrote it."""

    text: str
    bundle: Bundle
    cells: tuple[Cell, ...]


def select(text: str, open_bundle: Callable[[Path], Bundle]) -> Selection:
    """Return the selection that `text` names; raise `BundleError` where it names nothing."""
    path, _, part = text.partition("#")
    bundle = open_bundle(Path(path))
    wanted = _conditions(text, part, bundle.family)
    cells = tuple(c for c in bundle.cells if all(str(c.on(key)) == value for key, value in wanted.items()))
    if not cells:
        raise BundleError(f"{text}: no such cell; the bundle has {_offer(bundle.cells)}")
    return Selection(text, bundle, cells)


def pair(a: Selection, b: Selection) -> list[tuple[Cell, Cell]]:
    """Return cells of A and B that belong together, in A's order; raise `BundleError` where that is ambiguous.

    One cell on each side is a pair as it is. Otherwise cells pair by their values on the axes, and where a side has
    several of those, by scenario and arm as well. Both sides are of one family (`comparability.require_alike`).
    """
    if len(a.cells) == len(b.cells) == 1:
        return [(a.cells[0], b.cells[0])]
    by_values = [{cell.values: cell for cell in side.cells} for side in (a, b)]
    by_key = [{cell.key: cell for cell in side.cells} for side in (a, b)]
    for of_a, of_b in (by_values, by_key):
        if len(of_a) == len(a.cells) and len(of_b) == len(b.cells):
            pairs = [(cell, of_b[key]) for key, cell in of_a.items() if key in of_b]
            if pairs:
                return pairs
    raise BundleError(
        f"{a.text} and {b.text}: unclear which cells to compare; pick with #arm or #{_template(a)}: "
        f"A has {_offer(a.cells)}; B has {_offer(b.cells)}"
    )


def _template(of: Selection) -> str:
    return ",".join(f"{name}=…" for name in of.bundle.family.key if name != "arm")


def _conditions(text: str, part: str, family: Family) -> dict[str, str]:
    if not part:
        return {}
    if "=" not in part:
        return {"arm": part}
    wanted = dict(term.partition("=")[::2] for term in part.split(","))
    if unknown := set(wanted) - set(family.key):
        raise BundleError(f"{text}: {min(unknown)!r} does not select anything; allowed: {', '.join(family.key)}")
    return wanted


def _offer(cells: Sequence[Cell]) -> str:
    return "; ".join(cell.label for cell in cells) or "none"

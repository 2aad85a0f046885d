# SPDX-License-Identifier: Apache-2.0
"""Cells in words a reader knows without the plan: `stress, fifo on both`, `Nagle's algorithm on`."""

from collections import Counter
from collections.abc import Iterable, Sequence

from analysis.reading.bundle import Cell
from analysis.reading.family import Axis

CONTENTIONS = {"cpu": "stress"}
POLICIES = {"fifo": "fifo", "rr": "round robin", "flags": "the thesis' flags", "nice": "nice", "weight": "CPU weight"}
HOST = ("broker", "control-loop")
SECURITY = {"password": "a password", "tls": "TLS"}
NOTHING_SET, UNPROTECTED = "no priority", "no protection"


def of_cells(cells: Sequence[Cell]) -> dict[int, str]:
    """Return, by cell index, what distinguishes each cell from the bundle's others, and its contention."""
    scenarios, axes = len({cell.scenario for cell in cells}) > 1, varying(cells)
    names = {
        cell.index: ", ".join(
            [*([f"scenario {cell.scenario}"] if scenarios else []), of_arm(cell), *phrases(cell, axes)]
        )
        for cell in cells
    }
    if any(_security(cell) for cell in cells):
        plain = {cell.index for cell in cells if not _security(cell)}
        names |= {i: names[i].replace(NOTHING_SET, UNPROTECTED) for i in plain}
    twins = {name for name, count in Counter(names.values()).items() if count > 1}
    return {
        c.index: f"{names[c.index]} ({c.arm})" if names[c.index] in twins and c.arm else names[c.index] for c in cells
    }


def of_arm(cell: Cell) -> str:
    """Return the conditions of one cell: contention, fault, then what was set."""
    kind = (cell.contention or "").partition(":")[0]
    setting = _setting(cell)
    parts = (CONTENTIONS.get(kind, kind), cell.fault or "", setting if setting != cell.fault else "")
    return ", ".join(words for words in parts if words) or "undisturbed"


def varying(cells: Sequence[Cell]) -> list[Axis]:
    """Return the axes on which the cells, all of one family, have different values."""
    axes = cells[0].family.axes if cells else ()
    return [axis for at, axis in enumerate(axes) if len({cell.values[at] for cell in cells}) > 1]


def phrases(cell: Cell, axes: Iterable[Axis]) -> list[str]:
    """Return the cell's value on each of these axes: `every 20 ms`."""
    return [axis.phrase(cell.on(axis.name)) for axis in axes]


def _setting(cell: Cell) -> str:
    """Return the knobs that are set, in words; without any, the arm's name."""
    by_knob: dict[str, list[str]] = {}
    for service, knobs in cell.knobs.items():
        for kind, value in knobs.items():
            if kind not in {"tcp", "security"}:
                by_knob.setdefault(value, []).append(service)
    parts = [f"{_knob(value)} on {_services(services)}" for value, services in by_knob.items()]
    if security := _security(cell):
        parts.append(SECURITY.get(security, security))
    if parts:
        return " and ".join(parts)
    return NOTHING_SET if cell.arm == "none" else cell.arm


def _security(cell: Cell) -> str | None:
    """Return what protects the connections, the same for every service; None where nothing does."""
    return next((knobs["security"] for knobs in cell.knobs.values() if "security" in knobs), None)


def _knob(value: str) -> str:
    kind, _, amount = value.partition(":")
    if kind == "cpus":
        return f"pinned to CPU {amount}"
    words = POLICIES.get(kind, kind)
    return words if kind in {"fifo", "rr", "flags", "weight"} else f"{words} {amount}".strip()


def _services(services: Sequence[str]) -> str:
    if set(services) == set(HOST):
        return "both"
    return " and ".join({"control-loop": "the client", "broker": "the broker"}.get(name, name) for name in services)

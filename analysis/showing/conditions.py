# SPDX-License-Identifier: Apache-2.0
"""What a run was done on and under, in the few words that figures, tables and the report carry."""

from collections.abc import Iterable, Sequence

from analysis.reading.bundle import Bundle, Cell
from analysis.statistics import sequential


def of_cells(cells: Sequence[Cell]) -> list[str]:
    """Return board, contention, axes, knobs, and any unusual broker or session; where cells differ, every value.

    The first axis is left out, since lines are drawn along it, or labelled by it.
    """
    boards = [cell.board for cell in cells if cell.board]
    words = [f"board {_each(boards)}"] if boards else []
    words += [f"contention {_each(cell.contention or 'none' for cell in cells)}"]
    axes = cells[0].family.axes[1:] if cells else ()
    words += [f"{axis.heading} {_each(axis.entry(cell.on(axis.name)) for cell in cells)}" for axis in axes]
    brokers = _each(cell.broker or "mosquitto" for cell in cells)
    words += [f"broker {brokers}"] if brokers != "mosquitto" else []
    sessions = _each(cell.session for cell in cells)
    words += [f"session {sessions}"] if sessions != "clean" else []
    words += [f"fault {_each(cell.fault or 'none' for cell in cells)}"] if any(cell.fault for cell in cells) else []
    kinds = sorted({kind for cell in cells for knobs in cell.knobs.values() for kind in knobs} | {"priority"})
    return words + [f"{_KNOBS.get(kind, kind)} {_each(_knob(cell, kind) for cell in cells)}" for kind in kinds]


def of_run(bundle: Bundle) -> list[str]:
    """Return placement, size, host and date of the run."""
    host, plan = bundle.document["host"], bundle.plan
    words = [f"placement {bundle.document['placement']}", f"{bundle.repetitions_due} × {plan['messages']} cycles"]
    words += [f"kernel {host['kernel']}"] if host.get("kernel") else []
    words += [f"{host['cpus']} CPUs"] if host.get("cpus") else []
    return [*words, str(bundle.document["started_utc"])[:10]]


def notices(bundle: Bundle) -> list[str]:
    """Return the notices that each figure must carry."""
    lines = [str(bundle.document["notice"])] if bundle.document["notice"] else []
    if bundle.status != "complete":
        lines.append(f"{bundle.status} run: {bundle.document.get('reason') or 'ended early'}")
    return lines + ([looks] if (looks := sequential.notice(bundle)) else [])


_KNOBS = {"tcp": "TCP"}


def _each(values: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(values))


def _knob(cell: Cell, kind: str) -> str:
    """Return a knob's value by service: `broker fifo:90, control-loop fifo:80`, or `none`."""
    settings = {service: knobs[kind] for service, knobs in cell.knobs.items() if kind in knobs}
    return ", ".join(f"{service} {value}" for service, value in settings.items()) or "none"

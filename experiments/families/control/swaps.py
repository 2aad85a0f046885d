# SPDX-License-Identifier: Apache-2.0
"""What `make gate` may put in the place of a baseline's: the broker, its TCP option, the knobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from experiments import brokers, knobs, variables
from experiments.families.control.cells import settable
from experiments.families.control.conditions import ControlCell
from experiments.knobs.tcp import NoDelay
from schema import bundle as schema


def _knobs(cell: schema.Cell, *, of_tcp: bool) -> list[tuple[str, str, str]]:
    return sorted(
        (service, field, value)
        for service, fields in cell.knobs.items()
        for field, value in fields.items()
        if (field == NoDelay.field) == of_tcp
    )


SWAPPABLE: Mapping[str, Callable[[schema.Cell], object]] = {
    "BROKER": lambda cell: cell.broker,
    "TCP": lambda cell: _knobs(cell, of_tcp=True),
    "PRIORITY": lambda cell: _knobs(cell, of_tcp=False),
}


def swapped(cell: ControlCell, swaps: Mapping[str, str]) -> ControlCell:
    """Put these values in the place of a cell's; raise BadInputError."""
    conditions = cell.conditions
    if broker := swaps.get("BROKER"):
        conditions = replace(conditions, broker=brokers.parse(broker).kind)
    if priority := swaps.get("PRIORITY"):
        chosen = () if priority == "none" else knobs.frozen(knobs.parse(priority, settable()))
        conditions = replace(conditions, knobs=chosen)
    tcp = swaps.get("TCP", conditions.tcp)
    conditions = replace(conditions, tcp=str(variables.VARIABLES["TCP"].parse("TCP", tcp)))
    conditions.require_services()
    return replace(cell, conditions=conditions)

# SPDX-License-Identifier: Apache-2.0
"""The family of the control loop: what published figures and negative controls, which are its alone, are about.

T is the round trip, R the board's share of it, at the Pi, and O what is left: network, broker and both clients.
"""

from analysis.reading.bundle import Cell
from analysis.reading.family import Family, Value

NAME = "control"
ROUND_TRIP, BOARD, REMAINDER = METRICS = ("T", "R", "O")
INTERVAL, QOS = AXES = ("interval_ms", "qos")


def is_family(family: Family) -> bool:
    """Return whether it is the control loop's family, with its axes and metrics."""
    return (
        family.name == NAME and set(METRICS) <= set(family.by_name) and set(AXES) <= {axis.name for axis in family.axes}
    )


def place(cell: Cell) -> tuple[Value, Value]:
    """Return interval in ms and QoS of a cell of the family."""
    return cell.on(INTERVAL), cell.on(QOS)

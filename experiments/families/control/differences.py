# SPDX-License-Identifier: Apache-2.0
"""What of the control loop can be otherwise here than where a bundle was made: board, broker of plain processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from experiments import brokers
from experiments.differences import Effect, Fact
from experiments.families.control.conditions import ControlCell
from experiments.families.control.roles import BROKER
from schema.bundle import Bundle


def differences(recorded: Bundle, cells: Sequence[ControlCell]) -> Iterator[Fact]:
    """Tell each board beside the one it stands for, and the brokers installed here where no container has one."""
    was = [cell.device or cell.board for cell in recorded.plan.cells]
    now = [str(cell.conditions.board) for cell in cells]
    for name, other in dict.fromkeys(zip(was, now, strict=True)):
        yield Fact("board", name, other, Effect.WEAKENS, "R is that of another board")
    if all(cell.placement == "host" for cell in cells):
        yield _of_broker(recorded, cells)


def _of_broker(recorded: Bundle, cells: Sequence[ControlCell]) -> Fact:
    image = recorded.images.get(BROKER.name)
    installed = [brokers.parse(kind) for kind in dict.fromkeys(cell.conditions.broker for cell in cells)]
    now = ", ".join(
        f"{one.kind} {one.version_on_host()}" if one.available_on_host() else f"{one.kind}, not installed"
        for one in installed
    )
    effect = Effect.WEAKENS if all(one.available_on_host() for one in installed) else Effect.BLOCKS
    return Fact("broker", image.version if image else None, now, effect, "its share of O is another program's")

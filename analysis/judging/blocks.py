# SPDX-License-Identifier: Apache-2.0
"""Which repetitions of two arms ran side by side: a host that drifts drifts under both of them alike.

A study runs in rounds, each arm once a round in random order. A repetition run again later has no part in the round it
belongs to: it pairs only with one of the other arm that was run again near it, or with none.
"""

from collections.abc import Mapping

from analysis.reading.bundle import Bundle, Cell

NEAR_ROUNDS = 2


def of(bundle: Bundle, a: Cell, b: Cell) -> list[tuple[int, int]]:
    """Return (repetition of A, repetition of B) for each block, in the order run."""
    near = NEAR_ROUNDS * len(bundle.cells)
    of_a, of_b = _orders(bundle, a), _orders(bundle, b)
    rounds = {pair: position // max(len(bundle.cells), 1) for position, pair in enumerate(bundle.order)}
    in_round = {rounds[b.index, repetition]: repetition for repetition in of_b if (b.index, repetition) in rounds}
    blocks = []
    for repetition, order in of_a.items():
        other = in_round.get(rounds.get((a.index, repetition), -1))
        if other is not None and abs(order - of_b[other]) < near:
            blocks.append((repetition, other))
    paired_a, paired_b = {repetition for repetition, _ in blocks}, {other for _, other in blocks}
    left_a = {repetition: order for repetition, order in of_a.items() if repetition not in paired_a}
    left_b = {repetition: order for repetition, order in of_b.items() if repetition not in paired_b}
    return sorted(blocks + _neighbours(left_a, left_b, near), key=lambda block: of_a[block[0]])


def _orders(bundle: Bundle, cell: Cell) -> dict[int, int]:
    return {r.repetition: r.order for r in bundle.repetitions if r.counted and r.cell == cell.index}


def _neighbours(of_a: Mapping[int, int], of_b: Mapping[int, int], near: int) -> list[tuple[int, int]]:
    """Pair each repetition of A with the first unpaired one of B near it; both map repetition to order run."""
    blocks, others = [], sorted(of_b.items(), key=lambda item: item[1])
    for repetition, order in sorted(of_a.items(), key=lambda item: item[1]):
        while others and others[0][1] <= order - near:
            others.pop(0)
        if others and others[0][1] < order + near:
            blocks.append((repetition, others.pop(0)[0]))
    return blocks

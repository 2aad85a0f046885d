# SPDX-License-Identifier: Apache-2.0
"""The thesis' nine scenarios, as data. A swap on the command line replaces a field for one run."""

from __future__ import annotations

from dataclasses import dataclass, field

THESIS_INTERVALS_MS = (100, 50, 20, 10)

CONTENDED = ("O.p99", "missed.share_percent")
"""Beside a noisy neighbour: the tail of the path, for that is where neighbours are felt, and what the loop misses."""
QUIET = ("T.p50", "T.p99")
RECOVERY = "recovery.p50"


@dataclass(frozen=True)
class Scenario:
    """A named set of conditions; priority maps a service to what is set on it.

    `headline` is what answers its question, in the order tested: statistics of metrics as `analysis` names them. None:
    `CONTENDED` or `QUIET`, whichever the conditions of the run are.
    """

    title: str
    device: str = "simavr"
    contention: str | None = None
    priority: dict[str, str] = field(default_factory=dict)
    intervals_ms: tuple[int, ...] = THESIS_INTERVALS_MS
    qos: tuple[int, ...] = (0,)
    headline: tuple[str, ...] | None = None


def usual_headline(*, contended: bool, broken: bool = False) -> tuple[str, ...]:
    """The headline of conditions that have none of their own; where something breaks, recovery comes first."""
    return (*((RECOVERY,) if broken else ()), *(CONTENDED if contended else QUIET))


_BROKER = {"broker": "fifo:90"}
_CLIENT = {"control-loop": "fifo:90"}

SCENARIOS = {
    "0": Scenario("ideal board", device="none"),
    "1": Scenario("Arduino"),
    "2": Scenario("Arduino, CPU stress", contention="cpu"),
    "3": Scenario("ideal board, CPU stress", device="none", contention="cpu"),
    "4": Scenario("Arduino, CPU stress, broker first", contention="cpu", priority=_BROKER),
    "5": Scenario("Arduino, CPU stress, broker and client first", contention="cpu", priority=_BROKER | _CLIENT),
    "6": Scenario("ideal board, CPU stress, broker first", device="none", contention="cpu", priority=_BROKER),
    "7": Scenario("Arduino, MQTT flood", contention="flood", intervals_ms=(20,)),
    "8": Scenario("Arduino, MQTT flood, client first", "simavr", "flood", _CLIENT, (20,), (0, 1, 2)),
}

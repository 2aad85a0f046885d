# SPDX-License-Identifier: Apache-2.0
"""Studies as data: a scenario or several, arms that differ in one thing, all interleaved in one run.

An arm is the variables it swaps. `{pi_cpus}` stands for the CPUs of the Pi's side, which no contention uses.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from experiments import brokers
from experiments.scenarios import CONTENDED, RECOVERY

Swaps = dict[str, str]


@dataclass(frozen=True)
class Study:
    """A question, the scenarios it is put to, and the arms by label; `common` holds for all arms.

    The others are compared with the first arm. `headline` is what answers the question, in the order tested.
    """

    question: str
    scenarios: tuple[str, ...]
    arms: dict[str, Swaps]
    common: Swaps = field(default_factory=dict)
    leaves_out: bool = False
    """Are arms that this host cannot do named and left out? Otherwise they refuse the study."""
    headline: tuple[str, ...] = CONTENDED
    note: str | None = None
    """What a reader of its answer must know beside it."""


def _on_both(knob: str) -> Swaps:
    return {"PRIORITY": f"broker={knob},control-loop={knob}"}


STUDIES = {
    "priority": Study(
        "Which knob helps a loop whose host is under CPU stress?",
        ("2",),
        {
            "none": {"PRIORITY": "none"},
            "flags": _on_both("flags"),
            "fifo broker": {"PRIORITY": "broker=fifo:90"},
            "fifo client": {"PRIORITY": "control-loop=fifo:90"},
            "fifo both": _on_both("fifo:90"),
            "weight": _on_both("weight:16384"),
            "affinity": _on_both("cpus:{pi_cpus}"),
        },
        {"INTERVALS": "20"},
    ),
    "qos": Study(
        "What does a higher QoS cost, and how much of it is Nagle's algorithm?",
        ("1",),
        {"nodelay": {"TCP": "nodelay"}, "nagle": {"TCP": "nagle"}},
        {"INTERVALS": "20", "QOS": "0,1,2"},
        headline=("T.p50",),
    ),
    "security": Study(
        "What do a password and TLS cost the loop?",
        ("1",),
        {security: {"SECURITY": security} for security in ("none", "password", "tls")},
        {"INTERVALS": "20"},
        headline=("O.p50",),
    ),
    "docker": Study(
        "What does Docker itself cost?",
        ("0",),
        {"docker": {"PLACEMENT": "docker"}, "host": {"PLACEMENT": "host"}},
        {"INTERVALS": "20"},
        headline=("O.p50",),
        note=(
            "What differs is all that Docker brings: the bridge between containers in place of loopback, their limits, "
            "and the images' own builds of broker and Python in place of this machine's"
        ),
    ),
    "arduino": Study(
        "What does the board contribute, and does its model stand in for it?",
        ("1",),
        {"simavr": {"DEVICE": "simavr"}, "model": {"DEVICE": "model"}, "none": {"DEVICE": "none"}},
        {"INTERVALS": "20"},
        headline=("R.p50",),
    ),
    "faults": Study(
        "How long is the loop without answers after each fault?",
        ("1",),
        {
            value: {"FAULT": value}
            for value in (
                "broker:restart",
                "broker:kill",
                "broker:freeze:1s",
                "pi:kill",
                "pi:freeze:1s",
                "link:cut:1s",
                "board:reset",
                "board:silence:1s",
                "serial:garbage",
                "serial:unplug:1s",
                "disk:full",
            )
        },
        {"INTERVALS": "20", "MESSAGES": "450"},
        leaves_out=True,
        headline=(RECOVERY, "missed.share_percent", "lost.share_percent"),
    ),
    "brokers": Study(
        "Which broker adds the least, on a quiet host and first under CPU stress?",
        ("1", "5"),
        {kind: {"BROKER": kind} for kind in sorted(brokers.REGISTRY.all(), key=lambda kind: kind != "mosquitto")},
        {"INTERVALS": "20"},
        leaves_out=True,
        headline=("O.p50", "O.p99"),
        note="Each broker as it comes, but for what its folder in experiments/brokers sets; docs/brokers.md lists them",
    ),
    "sessions": Study(
        "Does a persistent session shorten the recovery from a broker that is killed?",
        ("1",),
        {session: {"SESSION": session} for session in ("clean", "persistent")},
        {"INTERVALS": "20", "QOS": "0,1,2", "MESSAGES": "450", "FAULT": "broker:kill"},
        headline=(RECOVERY, "lost.share_percent"),
    ),
}

# SPDX-License-Identifier: Apache-2.0
"""What the control loop's services tell at the end of a repetition: QoS, protection, board, connections, drops."""

from __future__ import annotations

import itertools
import json
from typing import Any

from experiments import proof
from experiments.families import Cycle, Outcome
from experiments.families.control.conditions import ControlCell
from experiments.families.control.metrics import FromRow, metrics
from experiments.families.control.roles import BOARD, BROKER, PI, ROLES
from experiments.knobs import Knob, Service, security
from experiments.placements import Stand
from experiments.proof import Proof
from experiments.roles import connected

proof.REMEDIES.update({
    "tcp": "the broker or a client does not honour TCP=…; choose the other value, or another BROKER",
    "security": "the broker or a client does not do as SECURITY says; see their logs, and docs/security.md",
    "qos granted": "this broker does not grant that QoS; choose a lower QOS",
    "qos of requests, answers": "this broker delivers another QoS than asked for; choose a lower QOS",
    "answers once": "the board repeats itself: flash our sketch, or reset the board",
})  # fmt: skip
_CAUSES = {None: "no answer", "board-timeout": "board timeout", "board-error": "board error"}


def cycle(row: list[Any]) -> Cycle:
    """Read a row of `clients.schedule.Row`."""
    sequence, intended_ns, sent_ns, received_ns, _, outcome, board, duplicate = row
    failure = None if outcome == "ok" else _CAUSES[outcome]
    measured = {metric.name: metric.value(row) for metric in metrics() if isinstance(metric, FromRow)}
    return Cycle(sequence, intended_ns, sent_ns, received_ns, failure, duplicate, measured, {"board": board})


def outcome(cell: ControlCell, done: dict[str, Any], stand: Stand, began_ns: int) -> Outcome:
    """Read the control loop's event `done`, and the Pi's log since the repetition began."""
    proofs = [
        *of_qos(done, done["granted_qos"], cell.qos, cell.qos_answer), *of_board(done),
        *of_security(done["protection"], dict(cell.conditions.knobs)),
    ]  # fmt: skip
    facts = {"control_loop": _loop_facts(done), "pi": {"reconnections": reconnections(stand.log(PI.name), began_ns)}}
    return Outcome(proofs, facts, drops(done["broker_dropped"]), done["connection_lost"])


def of_qos(done: dict[str, Any], granted: int, qos: int, qos_answer: int) -> list[Proof]:
    """Prove the QoS of both hops: as the broker granted it, and as every message carried it."""
    seen = [tuple(pair) for pair in done["qos_seen"]]
    granting = proof.entry(BROKER.name, "qos granted", str(qos_answer), granted, holds=granted == qos_answer)
    if not seen:
        return [granting]  # nothing was answered, so nothing can be said of messages
    holds = seen == [(qos, qos_answer)]
    return [granting, proof.entry(BROKER.name, "qos of requests, answers", f"{qos}, {qos_answer}", seen, holds=holds)]


def of_security(protection: dict[str, Any], by_service: dict[str, tuple[Knob, ...]]) -> list[Proof]:
    """Prove what protects each end of the connections, as both clients and a stranger at the door found it.

    `protection` is what `clients.control_loop` told, by service.
    """
    proofs = []
    for name in connected(ROLES):
        knob = next((knob for knob in by_service.get(name, ()) if knob.field == security.Password.field), None)
        expected = knob.expected() if knob else security.Password.untouched(Service(name, (), connects=True))
        observed = _broker_side(protection) if name == BROKER.name else security.of_client(protection[name])
        requested = str(knob) if knob else "untouched"
        entry = proof.entry(name, security.Password.field, requested, observed, holds=observed == expected)
        entry["observed"]["connection"] = protection[name]
        proofs.append(entry | {"expected": expected})
    return proofs


def _broker_side(protection: dict[str, Any]) -> str | None:
    """What both clients found behind a door that keeps strangers out; None where they differ."""
    sides = {security.of_client(protection[name]) for name in connected(ROLES) if name != BROKER.name}
    if protection[BROKER.name]["strangers"]:
        return "none"
    return sides.pop() if len(sides) == 1 else None


def of_board(done: dict[str, Any]) -> list[Proof]:
    """Prove that the board answered each question once."""
    repeats = done["board_repeats"]
    return [proof.entry(BOARD.name, "answers once", "0 repeated", f"{repeats} repeated", holds=repeats == 0)]


def _loop_facts(done: dict[str, Any]) -> dict[str, Any]:
    cpu_percent = round(100 * done["cpu_s"] / max(done["elapsed_s"], 1e-9), 2)
    kept = ("granted_qos", "foreign", "malformed", "board_repeats", "reconnections")
    return {"cpu_percent": cpu_percent} | {name: done[name] for name in kept}


def reconnections(log: bytes, began_ns: int) -> list[dict[str, Any]]:
    """Connections the Pi lost since the repetition began, by its log; as `clients.control_loop.Reconnection`."""
    events = [json.loads(line) for line in log.splitlines() if line.startswith(b"{") and line.endswith(b"}")]
    events = [event for event in events if event.get("t_ns", 0) >= began_ns]
    lost = [event for event in events if event["event"] == "disconnected"]
    back_ns = [event["t_ns"] for event in events if event["event"] == "connected"]
    return [
        {
            "lost_ns": event["t_ns"],
            "cause": event["reason"],
            "back_ns": next((t_ns for t_ns in back_ns if t_ns > event["t_ns"]), None),
        }
        for event in lost
    ]


def drops(totals: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """Rows of resources for what the broker says it dropped, as increases; the first is what it began with."""
    return [
        {"t_ns": t_ns, "service": BROKER.name, "sys_dropped": total - before if total >= before else total}
        for (_, before), (t_ns, total) in itertools.pairwise(totals)
    ]

# SPDX-License-Identifier: Apache-2.0
"""From a scenario and its swaps to cells, and from a recorded cell back to one."""

from __future__ import annotations

from collections.abc import Mapping

from experiments import boards, brokers, contentions, faults, knobs, roles, variables
from experiments.boards import Board
from experiments.cells import fault_at_ms
from experiments.contentions import Contention
from experiments.contentions.mqtt_stresser import MqttStresser
from experiments.errors import BadInputError
from experiments.families.control.conditions import ControlCell, ControlConditions
from experiments.families.control.roles import BROKER, ROLES
from experiments.families.control.scenarios import REGISTRY, Scenario
from experiments.faults import Fault
from experiments.knobs import Knob, Knobs
from experiments.knobs.security import Password
from experiments.knobs.tcp import NoDelay
from experiments.variables import Settings
from schema import bundle as schema


def planned(name: str, settings: Settings, placement: str, arm: str) -> list[ControlCell]:
    """Cross a scenario's brokers, intervals and QoS, with the swaps in place; raise BadInputError."""
    kinds = brokers.several(settings.broker) if settings.broker else [brokers.usual(placement)]
    swept = len(kinds) > 1
    return [
        cell
        for kind in kinds
        for cell in _of_broker(name, settings, placement, kind, ", ".join(filter(None, (arm, kind if swept else ""))))
    ]


def _of_broker(name: str, settings: Settings, placement: str, broker: str, arm: str) -> list[ControlCell]:
    scenario = REGISTRY.all()[name]
    published = settings.fidelity == "published"
    conditions = ControlConditions(
        _board(scenario, settings, placement),
        settings.tcp or ("nagle" if published else "nodelay"),
        broker,
        settings.session or "clean",
        settings.security or "none",
        contention=_contention(scenario, settings),
        knobs=_knobs(scenario, settings),
        fault=faults.parse(settings.fault or "none"),
    )
    conditions.require_services()
    if settings.fault_at_ms is not None and settings.fault is None:
        raise BadInputError("FAULT_AT_MS", str(settings.fault_at_ms), "there is no fault; say FAULT=… as well")
    qos_answer = 0 if published and settings.qos_answer is None else settings.qos_answer
    return [
        ControlCell(
            scenario=name, interval_ms=interval_ms, qos=qos, qos_answer=qos if qos_answer is None else qos_answer,
            conditions=conditions, messages=settings.messages, timeout_ms=settings.timeout_ms, arm=arm,
            placement=placement,
            fault_at_ms=fault_at_ms(conditions.fault, interval_ms, settings.messages, settings.fault_at_ms),
        )
        for interval_ms in settings.intervals or scenario.intervals_ms
        for qos in settings.qos or scenario.qos
    ]  # fmt: skip


def _board(scenario: Scenario, settings: Settings, placement: str) -> Board:
    """Return the board asked for; a bare host, which may have no simulator, gets the timing model instead."""
    modelled = placement == "host" and scenario.device == "simavr"
    return boards.parse(settings.device or ("model" if modelled else scenario.device))


def _contention(scenario: Scenario, settings: Settings) -> Contention | None:
    name = settings.contention or scenario.contention or "none"
    level = settings.flood or ""
    if level and name != "flood":
        raise BadInputError("FLOOD", level, f"the contention here is {name}; say CONTENTION=flood as well")
    if level == MqttStresser.kind:
        return contentions.parse(level)
    return contentions.parse(f"flood:{level or 'published'}" if name == "flood" else name)


def _knobs(scenario: Scenario, settings: Settings) -> Knobs:
    priority = settings.priority or settings.fidelity  # the thesis as it was: with flags where it had them
    if priority == "none":
        return ()
    usual = {service: (knobs.one(words),) for service, words in scenario.priority.items()}
    if priority == "published":
        if settings.priority and not usual:
            raise BadInputError(
                "PRIORITY", priority, f"the thesis sets none in {scenario.title!r}; leave it out, or say broker=flags"
            )
        return knobs.frozen({service: (knobs.one("flags"),) for service in usual})
    return knobs.frozen(usual | (knobs.parse(priority, settable()) if priority else {}))


def settable() -> tuple[str, ...]:
    """The services of this family's stands that PRIORITY may name."""
    return roles.settable([*ROLES, *contentions.roles()])


def recorded(cell: schema.Cell, facts: schema.Bundle, named: Mapping[str, str]) -> ControlCell:
    """Rebuild a cell of a bundle through the parsers of the command line; raise BadInputError."""
    placement = cell.placement or facts.placement
    variables.VARIABLES["PLACEMENT"].parse("PLACEMENT", placement)
    ends = roles.connected(ROLES)
    protected = {fields.get(Password.field, "none") for name, fields in cell.knobs.items() if name in ends}
    if len(protected) > 1:
        raise BadInputError("SECURITY", ", ".join(sorted(protected)), "all services have the same")
    security = str(variables.VARIABLES["SECURITY"].parse("SECURITY", protected.pop() if protected else "none"))
    tcp = str(variables.VARIABLES["TCP"].parse("TCP", cell.knobs.get(BROKER.name, {}).get(NoDelay.field, "nodelay")))
    by_service = {service: _recorded_knobs(service, fields) for service, fields in cell.knobs.items()}
    conditions = ControlConditions(
        boards.parse(_device(cell, named.get("DEVICE"))),
        tcp,
        brokers.parse(cell.broker or _broker_before(facts) or brokers.usual(placement)).kind,
        cell.session,
        security,
        contention=contentions.parse(cell.contention or "none"),
        knobs=knobs.frozen({service: chosen for service, chosen in by_service.items() if chosen}),
        fault=_fault(cell, named.get("FAULT")),
    )
    conditions.require_services()
    messages = cell.messages or facts.plan.messages
    interval_ms, qos = int(cell.on("interval_ms")), int(cell.on("qos"))
    return ControlCell(
        scenario=cell.scenario, interval_ms=interval_ms, qos=qos,
        qos_answer=qos if cell.qos_answer is None else cell.qos_answer,
        conditions=conditions, messages=messages, timeout_ms=cell.timeout_ms or facts.plan.timeout_ms, arm=cell.arm,
        placement=placement, fault_at_ms=fault_at_ms(conditions.fault, interval_ms, messages, cell.fault_at_ms),
    )  # fmt: skip


def _broker_before(facts: schema.Bundle) -> str | None:
    """The broker of a bundle that recorded none in its cells: what its version began with, e.g. `amqtt 0.11.3`."""
    image = facts.images.get("broker")
    kind = ((image and image.version) or "").partition(" ")[0]
    return kind if kind in brokers.REGISTRY.all() else None


def _device(cell: schema.Cell, named: str | None) -> str:
    recorded = cell.device or cell.board
    if recorded is None:
        raise BadInputError("DEVICE", "", "the cell names no board")
    if recorded.partition(":")[0] != "usb":
        return recorded
    if named is None:
        raise BadInputError(
            "DEVICE", recorded, "a bundle cannot choose a device of this machine; say DEVICE=usb:/dev/…"
        )
    return named


def _fault(cell: schema.Cell, named: str | None) -> Fault | None:
    fault = faults.parse(cell.fault or "none")
    if fault is not None and fault.of_the_host and (named is None or faults.parse(named) != fault):
        raise BadInputError("FAULT", str(fault), f"it acts on this machine itself; say FAULT={fault} to allow it")
    return fault


def _recorded_knobs(service: str, fields: Mapping[str, str]) -> tuple[Knob, ...]:
    """The knobs of one service but the connections', the stand's; each must set the field it was recorded for."""
    if service not in settable():
        raise BadInputError("PRIORITY", service, f"services are {', '.join(settable())}")
    set_here = {field: text for field, text in fields.items() if field not in (NoDelay.field, Password.field)}
    chosen = tuple(knobs.one(text) for text in set_here.values())
    for knob, field in zip(chosen, set_here, strict=True):
        if knob.field != field:
            raise BadInputError("PRIORITY", f"{service}={knob}", f"it sets {knob.field}, yet is recorded as {field}")
    return chosen

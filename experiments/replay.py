# SPDX-License-Identifier: Apache-2.0
"""Runs the plan of a bundle again: the same cells, seed and order, on the same images where they are still here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import docker.errors

from experiments import boards, brokers, contentions, host, knobs
from experiments.errors import BadInputError
from experiments.knobs.tcp import NoDelay
from experiments.plan import Cell, Conditions, Plan
from experiments.variables import Settings

_HOST_FACTS = ("hostname_hash", "kernel", "machine", "cpu_model", "cpus", "cgroup", "rt_group_sched")


@dataclass(frozen=True)
class Recorded:
    """What a replay needs of a bundle; extra fields of later schema versions are ignored."""

    facts: dict[str, Any]

    @classmethod
    def read(cls, folder: Path) -> Recorded:
        """Read bundle.json; raise BadInputError where there is no plan to replay."""
        try:
            facts = json.loads((folder / "bundle.json").read_text())
            _ = facts["plan"]["cells"][0], facts["plan"]["seed"], facts["name"]
        except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
            raise BadInputError(
                "BUNDLE", str(folder), f"no readable bundle.json with a plan in it ({error!r})"
            ) from None
        return cls(facts)

    def plan(self, run: str) -> Plan:
        """Rebuild the plan under a run id of its own; raise BadInputError for what this version does not know."""
        recorded = self.facts["plan"]
        names = ("messages", "repetitions", "warmup", "timeout_ms", "seed")
        settings = Settings(**{name: recorded[name] for name in names}, deadline_ms=recorded.get("deadline_ms"))
        try:
            cells = [_cell(recorded, cell, self.facts["placement"]) for cell in recorded["cells"]]
        except (KeyError, TypeError) as error:
            raise BadInputError("BUNDLE", self.facts["name"], f"a cell of its plan lacks {error}") from None
        return Plan(self.facts["name"], f"replay of the run of {self.facts['started_utc']}", cells, settings, run)

    def image_ids(self) -> dict[str, str]:
        """Give the image of each service that has one."""
        return {service: image["id"] for service, image in self.facts.get("images", {}).items() if image.get("id")}

    def differences(self) -> list[str]:
        """Name what this host cannot match, before anything starts."""
        then, now = self.facts.get("host", {}), host.facts()
        found = [
            f"{name.replace('hostname_hash', 'host')}: was {then[name]}, is {now[name]}"
            for name in _HOST_FACTS
            if name in then and then[name] != now[name]
        ]
        revision, ours = (self.facts.get("git") or {}).get("revision"), (host.git() or {}).get("revision")
        if revision != ours:
            found.append(f"revision of the testbed: was {revision}, is {ours}")
        return found


def present(engine: docker.DockerClient, wanted: dict[str, str]) -> dict[str, str]:
    """Give those images, by service, that are here under the very same id."""
    here = {}
    for service, image_id in wanted.items():
        try:
            here[service] = str(engine.images.get(image_id).id)
        except docker.errors.ImageNotFound:
            continue
    return here


def _cell(recorded: dict[str, Any], record: dict[str, Any], placement: str) -> Cell:
    """Rebuild a cell; one without a broker of its own is of a bundle that recorded none, and gets the usual one."""
    placement = record.get("placement", placement)
    by_service = record["knobs"]
    tcp = by_service.get("broker", {}).get(NoDelay.field, "nodelay")
    asked = {
        service: tuple(knobs.one(text) for field, text in fields.items() if field != NoDelay.field)
        for service, fields in by_service.items()
    }
    kind, _, level = (record["contention"] or "none").partition(":")
    conditions = Conditions(
        boards.parse(record.get("device", record["board"])),
        tcp,
        contentions.parse(kind, level),
        knobs.frozen({service: found for service, found in asked.items() if found}),
        brokers.parse(record["broker"]).kind if "broker" in record else brokers.usual(placement),
    )
    qos_answer = record["qos"] if record["qos_answer"] is None else record["qos_answer"]
    return Cell(
        record["scenario"], record["interval_ms"], record["qos"], qos_answer, conditions,
        record.get("messages", recorded["messages"]), record.get("timeout_ms", recorded["timeout_ms"]),
        record["arm"], placement,
    )  # fmt: skip

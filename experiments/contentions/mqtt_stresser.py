# SPDX-License-Identifier: Apache-2.0
"""The thesis' own flooder from its public image, `FLOOD=mqtt-stresser`: amd64 only, and where a registry answers."""

from __future__ import annotations

from typing import Any

from experiments.contentions import Achieved, Contention
from experiments.contentions.flood import Flood
from experiments.errors import BadInputError


class MqttStresser(Contention):
    """Started anew for each repetition, for it ends by itself after some ten seconds and tells nothing to a program."""

    kind = "mqtt-stresser"
    role = Flood.role
    through = Flood.through
    image = "inovex/mqtt-stresser"
    once = True

    def arguments(self) -> list[str]:
        """As published."""
        return [
            "-broker", "tcp://broker:1883", "-num-clients", "100", "-num-messages", "10", "-rampup-delay", "1s",
            "-rampup-size", "10", "-global-timeout", "180s", "-timeout", "20s",
        ]  # fmt: skip

    def host_program(self) -> list[str]:
        """It is an image."""
        raise BadInputError("FLOOD", self.kind, "it needs a container; say FLOOD=published or PLACEMENT=docker")

    def shortfall(self, achieved: Achieved, job: dict[str, Any] | None) -> str | None:
        """It must at least have run; what it delivered is in logs/flooder.log."""
        del job
        return None if achieved.cpu_s > 0 else "mqtt-stresser used no CPU at all; see logs/flooder.log"

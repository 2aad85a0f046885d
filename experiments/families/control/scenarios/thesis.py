# SPDX-License-Identifier: Apache-2.0
"""The thesis' nine scenarios."""

from __future__ import annotations

from experiments.families.control.scenarios import REGISTRY, Scenario

_BROKER = {"broker": "fifo:90"}
_CLIENT = {"control-loop": "fifo:90"}

THESIS = {
    "0": Scenario("ideal board", device="none"),
    "1": Scenario("Arduino"),
    "2": Scenario("Arduino, CPU stress", contention="cpu"),
    "3": Scenario("ideal board, CPU stress", device="none", contention="cpu"),
    "4": Scenario("Arduino, CPU stress, broker first", contention="cpu", priority=_BROKER),
    "5": Scenario("Arduino, CPU stress, broker and client first", contention="cpu", priority=_BROKER | _CLIENT),
    "6": Scenario("ideal board, CPU stress, broker first", device="none", contention="cpu", priority=_BROKER),
    "7": Scenario("Arduino, MQTT flood", contention="flood", intervals_ms=(20,)),
    "8": Scenario(
        "Arduino, MQTT flood, client first", contention="flood", priority=_CLIENT, intervals_ms=(20,), qos=(0, 1, 2)
    ),
}

for _number, _scenario in THESIS.items():
    REGISTRY.add(_number, _scenario)

# SPDX-License-Identifier: Apache-2.0
"""Each fault, and how long the loop is without answers."""

from experiments.families import Study
from experiments.families.control.scenarios import RECOVERY
from experiments.families.control.studies import REGISTRY

REGISTRY.add(
    "faults",
    Study(
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
        common={"INTERVALS": "20", "MESSAGES": "450"},
        leaves_out=True,
        headline=(RECOVERY, "missed.share_percent", "lost.share_percent"),
    ),
)

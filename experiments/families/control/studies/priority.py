# SPDX-License-Identifier: Apache-2.0
"""Every knob against none, under CPU stress."""

from experiments.families import Study
from experiments.families.control.scenarios import CONTENDED
from experiments.families.control.studies import REGISTRY, on_both

REGISTRY.add(
    "priority",
    Study(
        "Which knob helps a loop whose host is under CPU stress?",
        ("2",),
        {
            "none": {"PRIORITY": "none"},
            "flags": on_both("flags"),
            "fifo broker": {"PRIORITY": "broker=fifo:90"},
            "fifo client": {"PRIORITY": "control-loop=fifo:90"},
            "fifo both": on_both("fifo:90"),
            "weight": on_both("weight:16384"),
            "affinity": on_both("cpus:{pi_cpus}"),
        },
        common={"INTERVALS": "20"},
        headline=CONTENDED,
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""What a higher QoS costs, with Nagle's algorithm and without."""

from experiments.families import Study
from experiments.families.control.studies import REGISTRY

REGISTRY.add(
    "qos",
    Study(
        "What does a higher QoS cost, and how much of it is Nagle's algorithm?",
        ("1",),
        {"nodelay": {"TCP": "nodelay"}, "nagle": {"TCP": "nagle"}},
        common={"INTERVALS": "20", "QOS": "0,1,2"},
        headline=("T.p50",),
    ),
)

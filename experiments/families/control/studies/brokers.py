# SPDX-License-Identifier: Apache-2.0
"""Every broker that this host can run."""

from experiments import brokers
from experiments.families import Study
from experiments.families.control.studies import REGISTRY

REGISTRY.add(
    "brokers",
    Study(
        "Which broker adds the least, on a quiet host and first under CPU stress?",
        ("1", "5"),
        {kind: {"BROKER": kind} for kind in sorted(brokers.REGISTRY.all(), key=lambda kind: kind != "mosquitto")},
        common={"INTERVALS": "20"},
        leaves_out=True,
        headline=("O.p50", "O.p99"),
        note="Each broker as it comes, but for what its folder in experiments/brokers sets; docs/brokers.md lists them",
    ),
)

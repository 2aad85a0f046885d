# SPDX-License-Identifier: Apache-2.0
"""Containers against plain processes."""

from experiments.families import Study
from experiments.families.control.studies import REGISTRY

REGISTRY.add(
    "docker",
    Study(
        "What does Docker itself cost?",
        ("0",),
        {"docker": {"PLACEMENT": "docker"}, "host": {"PLACEMENT": "host"}},
        common={"INTERVALS": "20"},
        headline=("O.p50",),
        note=(
            "What differs is all that Docker brings: the bridge between containers in place of loopback, their limits, "
            "and the images' own builds of broker and Python in place of this machine's"
        ),
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""The board, its model, and none."""

from experiments.families import Study
from experiments.families.control.studies import REGISTRY

REGISTRY.add(
    "arduino",
    Study(
        "What does the board contribute, and does its model stand in for it?",
        ("1",),
        {"simavr": {"DEVICE": "simavr"}, "model": {"DEVICE": "model"}, "none": {"DEVICE": "none"}},
        common={"INTERVALS": "20"},
        headline=("R.p50",),
    ),
)

# SPDX-License-Identifier: Apache-2.0
"""R and O, the parts of T that the thesis shows."""

from experiments.families import Metric
from experiments.families.control.metrics import REGISTRY, FromRow

REGISTRY.add("R", FromRow("R", "r_us", "the board's share, at the Pi", answered_only=True, value=lambda row: row[4]))
REGISTRY.add("O", Metric("O", "o_us", "network, broker and both clients", difference=("T", "R")))

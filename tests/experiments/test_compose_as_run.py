# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from experiments.placements.docker import ROOT, relocated


def test_the_compose_file_as_run_does_not_name_the_checkout() -> None:
    as_run = f"context: {ROOT}\nsource: {ROOT}/experiments/brokers/mosquitto/nodelay.conf\nother: {ROOT}-2/x\n"
    assert relocated(as_run) == f"context: .\nsource: ./experiments/brokers/mosquitto/nodelay.conf\nother: {ROOT}-2/x\n"

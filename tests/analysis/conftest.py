# SPDX-License-Identifier: Apache-2.0
"""Bundles shared by the tests of analysis."""

from pathlib import Path

import pytest
import synthetic
from synthetic import CellSpec, Latency, Spec


@pytest.fixture(scope="session")
def scenario_1(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four intervals, five repetitions, and one of everything that can go wrong; not to be written to."""
    cells = (
        CellSpec(interval_ms=100),
        CellSpec(interval_ms=50, late=1),
        CellSpec(interval_ms=20, duplicate=2),
        CellSpec(interval_ms=10, lost=3, latency=Latency(shift_us=400)),
    )
    return synthetic.write(tmp_path_factory.mktemp("bundles") / "scenario-1", Spec(cells=cells, resources=True))


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """One cell, three repetitions of 20 cycles; free to be damaged."""
    return synthetic.write(tmp_path / "bundle", Spec(repetitions=3, messages=20))

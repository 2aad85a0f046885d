# SPDX-License-Identifier: Apache-2.0
"""Each warning is given when it applies, and only then."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import synthetic
from synthetic import CellSpec, Latency, Spec

from analysis.judging import warnings
from analysis.judging.warnings import Kind
from analysis.reading.bundle import read
from analysis.statistics import per_cell


def kinds(folder: Path) -> set[Kind]:
    run = read(folder)
    return {caution.kind for caution in warnings.of(run, per_cell.summarise(run))}


def calm(**values: Any) -> Spec:
    return Spec(**{"cells": (CellSpec(latency=Latency(between_us=10)),)} | values)


def of_repetitions(**values: Any) -> Callable[[dict[str, Any]], None]:
    def edit(document: dict[str, Any]) -> None:
        for entry in document["repetitions"]:
            entry.update(values)

    return edit


def test_a_calm_complete_run_has_no_warning(tmp_path: Path) -> None:
    assert kinds(synthetic.write(tmp_path / "b", calm())) == set()


@pytest.mark.parametrize(
    ("spec", "kind"),
    [
        (calm(status="partial"), Kind.ENDED_EARLY),
        (calm(edit=of_repetitions(validity="refused", reasons=["no SYS_NICE"], counted=False)), Kind.REFUSED),
        (calm(edit=of_repetitions(validity="noisy", reasons=["steal 9 %"])), Kind.NOISY),
        (calm(proofs=False), Kind.PROOF),
        (calm(edit=lambda d: d["repetitions"][0]["proofs"][0].update(holds=False)), Kind.BROKEN),
        (calm(repetitions=2), Kind.NO_INTERVAL),
        (calm(repetitions=3, messages=20), Kind.NO_P99),
        (calm(edit=lambda d: d.update(floor=None)), Kind.NO_FLOOR),
        (calm(edit=lambda d: d["floor"]["tcp_echo_t_us"].update(p50=400)), Kind.FLOOR),
        (calm(cells=(CellSpec(lost=2),)), Kind.CUT),
        (calm(cells=(CellSpec(latency=Latency(between_us=1500, floor_us=3000)),)), Kind.SPREAD),
        (calm(cells=(CellSpec(latency=Latency(drift_us=200, between_us=10)),), repetitions=10), Kind.TREND),
        (calm(cells=(CellSpec(lateness_us=3000),)), Kind.OMISSION),
        (calm(cells=(CellSpec(latency=Latency(climb_us=1500, between_us=10)),), repetitions=10), Kind.RAMP),
    ],
    ids=lambda value: value.name if isinstance(value, Kind) else "",
)
def test_a_warning_is_given_where_it_applies(tmp_path: Path, spec: Spec, kind: Kind) -> None:
    assert kind in kinds(synthetic.write(tmp_path / "b", spec))


def test_every_warning_carries_a_remedy_and_what_several_cells_share_is_told_once(tmp_path: Path) -> None:
    cells = (CellSpec(interval_ms=20), CellSpec(interval_ms=10))
    run = read(synthetic.write(tmp_path / "b", Spec(cells=cells, repetitions=2, messages=400)))
    lines = [caution.line for caution in warnings.of(run, per_cell.summarise(run))]
    (line,) = lines
    assert line.startswith("scenario 1, 20 ms, QoS 0; scenario 1, 10 ms, QoS 0: too few repetitions for intervals: 2. ")
    assert line.endswith("Set REPETITIONS=10; intervals need 3, verdicts 4 on each side.")

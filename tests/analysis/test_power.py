# SPDX-License-Identifier: Apache-2.0
"""Power as a bundle's own repetitions give it."""

from pathlib import Path

import numpy as np
import pytest
import synthetic
from synthetic import CellSpec, Latency, Spec

from analysis.judging import power
from analysis.judging.headline import CONTENTION
from analysis.judging.power import Planted, Source
from analysis.reading.bundle import BundleError, read
from analysis.statistics import cycles
from analysis.statistics.cycles import MISSING


def source(folder: Path, cell: CellSpec) -> Source:
    bundle = read(synthetic.write(folder, Spec(cells=(cell,), repetitions=10)))
    return Source(cycles.read(bundle, bundle.cells[0]), 20, CONTENTION)


def found(of: Source, name: str, draws: int = 30) -> dict[str, float]:
    planted: Planted = next(one for one in power.differences(of.cycles.family) if one.name == name)
    shares = power.power_of(of, planted, 10, draws, np.random.default_rng(1))
    return dict(zip([*map(str, power.shown(of.headlines, of.cycles.family)), "anything"], shares, strict=True))


def test_nothing_planted_is_seldom_found_and_a_plain_shift_always(tmp_path: Path) -> None:
    steady = source(tmp_path / "steady", CellSpec(latency=Latency(between_us=20)))
    assert found(steady, "nothing")["anything"] <= 0.1
    shifted = found(steady, "T + 1 ms")
    assert shifted["T.p50"] == 1
    assert shifted["lost.share_percent"] == 0


def test_the_same_shift_is_found_less_where_repetitions_vary_more(tmp_path: Path) -> None:
    steady = source(tmp_path / "steady", CellSpec(latency=Latency(between_us=20)))
    restless = source(tmp_path / "restless", CellSpec(latency=Latency(between_us=1000)))
    assert found(restless, "T + 0.5 ms")["T.p50"] < found(steady, "T + 0.5 ms")["T.p50"]


def test_the_headline_has_a_column_and_is_found_where_it_is_what_differs(tmp_path: Path) -> None:
    of = source(tmp_path / "steady", CellSpec(latency=Latency(between_us=20, sigma=0.1)))
    assert found(of, "T + 1 ms")["O.p99"] == 1
    bundle = read(
        synthetic.write(tmp_path / "a", Spec(repetitions=6, messages=40, cells=(CellSpec(contention="cpu"),)))
    )
    assert power.table(bundle, 2).header[4:6] == ("p99 of O", "share of missed deadlines")


def test_planted_losses_are_found_as_losses(tmp_path: Path) -> None:
    of = source(tmp_path / "a", CellSpec())
    assert found(of, "2% of cycles lost")["lost.share_percent"] > 0.5


def test_a_drawn_repetition_is_a_whole_one(tmp_path: Path) -> None:
    of = source(tmp_path / "a", CellSpec(lost=3))
    drawn = power.drawn(of.cycles, 20, np.random.default_rng(1))
    assert sorted(set(drawn.repetition.tolist())) == list(range(1, 21))
    whole = {tuple(part) for part in np.split(of.cycles.latencies_us["T"], 10)}
    assert {tuple(part) for part in np.split(drawn.latencies_us["T"], 20)} <= whole
    assert (drawn.latencies_us["T"] == MISSING).sum() == 60


def test_the_same_bundle_gives_the_same_table_and_too_few_repetitions_are_refused(tmp_path: Path) -> None:
    bundle = read(synthetic.write(tmp_path / "a", Spec(repetitions=6, messages=40)))
    assert power.table(bundle, 3) == power.table(bundle, 3)
    with pytest.raises(BundleError, match="no cell has 5 counted repetitions"):
        power.table(read(synthetic.write(tmp_path / "b", Spec(repetitions=4))), 3)

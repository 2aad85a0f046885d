# SPDX-License-Identifier: Apache-2.0
"""Comparisons of bundles, as a user types them."""

from pathlib import Path
from typing import Any

import pytest
import synthetic
from synthetic import CellSpec, Latency, Spec
from test_analysis_cli import run

from analysis.judging import compare, verdicts
from analysis.judging.compare import FASTER, SAME, SLOWER, UNKNOWN
from analysis.reading.bundle import BundleError, read
from analysis.reading.selection import Selection, pair, select

CALM = Latency(between_us=20)


def write(folder: Path, *cells: CellSpec, **values: Any) -> Path:
    return synthetic.write(folder, Spec(cells=cells or (CellSpec(latency=CALM),), **values))


def compared(a: Path | str, b: Path | str, **options: Any) -> compare.Comparison:
    return compare.compare(select(str(a), read), select(str(b), read), **options)


def verdict_of(found: compare.Comparison, metric: str, statistic: str) -> str:
    return next(c.verdict for c in found.claims if (c.metric, c.statistic) == (metric, statistic))


def test_a_slower_bundle_is_slower_and_the_other_way_round_faster(tmp_path: Path) -> None:
    a = write(tmp_path / "a")
    b = write(tmp_path / "b", CellSpec(latency=Latency(between_us=20, shift_us=500)), data_seed=2)
    there, back = compared(a, b), compared(b, a)
    for metric in ("T", "O"):
        assert verdict_of(there, metric, "p50") == SLOWER
        assert verdict_of(back, metric, "p50") == FASTER
    assert verdict_of(there, "R", "p50") == SAME
    claim = next(c for c in there.claims if (c.metric, c.statistic) == ("T", "p50"))
    assert claim.low < 500 < claim.high
    assert claim.cliffs_delta == 1


def test_the_same_conditions_again_are_the_same_or_cannot_tell(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", repetitions=10), write(tmp_path / "b", repetitions=10, data_seed=2)
    found = compared(a, b)
    assert {claim.verdict for claim in found.claims} <= {SAME, UNKNOWN}
    assert verdict_of(found, "T", "p50") == SAME
    assert any("separate runs" in note for note in found.notes)


def test_the_margin_decides_between_the_same_and_cannot_tell(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", repetitions=10), write(tmp_path / "b", repetitions=10, data_seed=2)
    assert verdict_of(compared(a, b, margin=1e-6), "T", "p50") == UNKNOWN


def test_arms_of_one_bundle_compare(tmp_path: Path) -> None:
    fast = CellSpec(scenario="4", arm="fifo", latency=CALM)
    slow = CellSpec(scenario="4", arm="other", latency=Latency(between_us=20, shift_us=800))
    folder = write(tmp_path / "b", fast, slow, repetitions=6)
    found = compared(f"{folder}#fifo", f"{folder}#scenario=4,arm=other")
    assert verdict_of(found, "T", "p50") == SLOWER
    assert "arm: fifo → other" in found.differences
    assert not any("separate runs" in note for note in found.notes)


@pytest.mark.parametrize(
    ("spec", "told"),
    [
        (Spec(host={"hostname_hash": "other"}), "host hostname_hash: 1f2e3d → other"),
        (Spec(placement="host"), "placement: docker → host"),
        (Spec(cells=(CellSpec(board="none"),)), "board: simavr → none"),
        (Spec(messages=50), "messages a repetition: 100 → 50"),
    ],
)
def test_what_is_not_comparable_is_refused_by_name_unless_forced(tmp_path: Path, spec: Spec, told: str) -> None:
    a, b = write(tmp_path / "a"), synthetic.write(tmp_path / "b", spec)
    with pytest.raises(BundleError, match="not comparable") as caught:
        compared(a, b)
    assert told in str(caught.value)
    assert told in compared(a, b, force=True).differences


def test_conditions_that_differ_are_named(tmp_path: Path) -> None:
    a = write(tmp_path / "a")
    knobs = {"broker": {"tcp": "nodelay", "priority": "fifo:90"}}
    b = write(tmp_path / "b", CellSpec(scenario="4", contention="cpu", knobs=knobs))
    assert set(compared(a, b).differences) == {
        "scenario: 1 → 4", "contention: none → cpu", "broker priority: none → fifo:90"
    }  # fmt: skip


def test_three_repetitions_give_no_verdict_and_say_so(tmp_path: Path) -> None:
    a = write(tmp_path / "a", repetitions=3)
    b = write(tmp_path / "b", CellSpec(latency=Latency(shift_us=5000)), repetitions=3)
    found = compared(a, b)
    assert {verdict_of(found, "T", name) for name in ("avg", "p50", "p90")} == {UNKNOWN}
    assert any("too few for any verdict" in note for note in found.notes)


def test_one_repetition_cannot_be_compared(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", repetitions=1), write(tmp_path / "b", repetitions=5)
    with pytest.raises(BundleError, match="each needs 2 counted repetitions"):
        compared(a, b)


def test_p99_is_compared_only_where_both_sides_support_it(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", repetitions=5, messages=50), write(tmp_path / "b", repetitions=5, messages=50)
    assert {claim.statistic for claim in compared(a, b).claims if claim.metric == "T"} == {"avg", "p50", "p90"}


def test_cells_pair_by_interval_and_qos(tmp_path: Path) -> None:
    a = read(write(tmp_path / "a", CellSpec(interval_ms=100), CellSpec(interval_ms=20), repetitions=2, messages=5))
    b = read(write(tmp_path / "b", CellSpec(interval_ms=20), CellSpec(interval_ms=10), repetitions=2, messages=5))
    pairs = pair(Selection("A", a, a.cells), Selection("B", b, b.cells))
    assert [(x.values, y.values) for x, y in pairs] == [((20, 0), (20, 0))]


@pytest.mark.parametrize(
    ("part", "told"),
    [
        ("#nonsense", "no such cell"),
        ("#colour=red", "'colour' does not select anything; allowed: scenario, arm, interval_ms, qos"),
        ("#interval_ms=7", "no such cell; the bundle has scenario 1, 20 ms, QoS 0"),
    ],
)
def test_a_selection_that_names_nothing_says_what_there_is(tmp_path: Path, part: str, told: str) -> None:
    folder = write(tmp_path / "b", repetitions=2, messages=5)
    with pytest.raises(BundleError) as caught:
        select(f"{folder}{part}", read)
    assert told in str(caught.value)


def test_an_unclear_pairing_is_refused(tmp_path: Path) -> None:
    cells = (CellSpec(arm="a"), CellSpec(arm="b"))
    a = write(tmp_path / "a", *cells, repetitions=2, messages=5)
    b = write(tmp_path / "b", CellSpec(arm="c"), repetitions=2, messages=5)
    with pytest.raises(BundleError, match="unclear which cells to compare"):
        compared(a, b)


def test_the_command_prints_table_sentences_and_notes(tmp_path: Path) -> None:
    a = write(tmp_path / "a")
    b = write(tmp_path / "b", CellSpec(latency=Latency(between_us=20, shift_us=500)), data_seed=2)
    done = run("compare", a, b)
    assert done.returncode == 0
    for words in ("B − A", "Cliff's δ", "slower", "T (scenario 1, 20 ms, QoS 0): B is slower", "note: A and B are"):
        assert words in done.stdout
    assert run("compare", a, tmp_path / "c").returncode == 2


def test_sentences_name_verdict_amount_and_interval(tmp_path: Path) -> None:
    a = write(tmp_path / "a")
    b = write(tmp_path / "b", CellSpec(latency=Latency(between_us=20, shift_us=-300)), data_seed=2)
    line = verdicts.sentences(compared(a, b).claims)[0]
    assert line.startswith("T (scenario 1, 20 ms, QoS 0): B is faster: ")
    assert "median by 0." in line


def broker(document: dict[str, Any], kind: str, messages: int = 100) -> None:
    document["plan"]["cells"][0] |= {"broker": kind, "messages": messages}


def test_another_broker_is_told_and_another_number_of_messages_is_an_obstacle(tmp_path: Path) -> None:
    a = write(tmp_path / "a", edit=lambda document: broker(document, "mosquitto"))
    b = write(tmp_path / "b", edit=lambda document: broker(document, "amqtt"), data_seed=2)
    assert "broker: mosquitto → amqtt" in compared(a, b).differences
    shorter = write(tmp_path / "c", edit=lambda document: broker(document, "mosquitto", 50), data_seed=2)
    with pytest.raises(BundleError, match="messages a repetition: 100 → 50"):
        compared(a, shorter)

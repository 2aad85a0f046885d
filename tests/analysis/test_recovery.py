# SPDX-License-Identifier: Apache-2.0
"""Recovery from a fault: its time, what it cost, and what is said where a loop does not recover."""

import csv
import io
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic import CellSpec, Spec, write

from analysis.judging import answer, inference, measures
from analysis.judging.grid import compact
from analysis.reading.bundle import Bundle, Cell, Fault, read
from analysis.showing import derived, forest, recovery_figure, recovery_table, report, summary, verify
from analysis.statistics import distribution, per_cell, recovery
from analysis.statistics.cycles import MISSING
from analysis.statistics.quantity import Quantity
from analysis.statistics.recovery import UNBROKEN, Cycles

KILLED = CellSpec(arm="broker:kill", fault="broker:kill", outage_ms=400)
FAULT = Fault("broker:kill", 1_000_000_000, 1_005_000_000, 1_400_000_000, ("broker ended: exit status 137",))


def bundle_of(tmp_path: Path, *cells: CellSpec, repetitions: int = 8, messages: int = 100) -> Bundle:
    return read(write(tmp_path / "bundle", Spec(cells=cells or (KILLED,), repetitions=repetitions, messages=messages)))


def independently(bundle: Bundle) -> list[tuple[float | None, int, int]]:
    """(recovery in µs, lost, late) of each repetition, row by row from samples.parquet and bundle.json alone."""
    rows = pq.read_table(bundle.folder / "samples.parquet").to_pylist()
    found = []
    for entry in bundle.document["repetitions"]:
        arm = bundle.document["plan"]["cells"][entry["cell"]]["arm"]
        own = [row for row in rows if row["arm"] == arm and row["repetition"] == entry["repetition"]]
        own = sorted((row for row in own if row["status"] != "duplicate"), key=lambda row: row["sequence"])
        at_ns = entry["fault"]["injected_ns"]
        after = [row for row in own if (row["sent_ns"] or row["intended_ns"]) >= entry["fault"]["in_force_ns"]]
        first = next(
            (i for i in range(len(after) - 9) if all(row["status"] == "ok" for row in after[i : i + 10])),
            None,
        )
        meanwhile = after if first is None else after[:first]
        time_us = None if first is None else (after[first]["received_ns"] - at_ns) / 1000
        found.append((time_us, *(sum(row["status"] == what for row in meanwhile) for what in ("lost", "late"))))
    return found


def test_recovery_is_what_an_independent_reading_of_the_samples_gives(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, replace(KILLED, late=3))
    (own,) = recovery.of(bundle)
    expected = independently(bundle)
    assert [r.lost for r in own.recoveries] == [lost for _, lost, _ in expected]
    for found, (time_us, _, _) in zip(own.recoveries, expected, strict=True):
        assert found.recovery_us == pytest.approx(time_us, abs=1)
        assert (found.recovery_us or 0) > 400_000


def cycles(*statuses: str, interval_ns: int = 20_000_000, start_ns: int = 900_000_000) -> Cycles:
    """One cycle each, answered after 5 ms or 1.1 s."""
    at_ns = start_ns + interval_ns * np.arange(len(statuses), dtype=np.int64)
    takes_ns = np.array([{"ok": 5_000_000, "late": 1_100_000_000}.get(status, 0) for status in statuses])
    lost = np.array(statuses) == "lost"
    return Cycles(at_ns, np.where(lost, MISSING, at_ns + takes_ns), np.array(statuses), np.zeros(0, dtype=np.int64))


def test_recovery_begins_an_unbroken_row_and_not_just_any_answer() -> None:
    before, outage, blip = ["ok"] * 5, ["lost"] * 4, ["ok"] * 9 + ["lost"]
    assert recovery.recovered(cycles(*before, *outage, *blip, *["ok"] * UNBROKEN), FAULT) == 19
    assert recovery.recovered(cycles(*before, *outage, *["ok"] * UNBROKEN), FAULT) == 9


def test_a_row_that_begins_before_the_fault_is_in_force_is_no_recovery() -> None:
    assert recovery.recovered(cycles(*["ok"] * 20), FAULT) == 6, "the first one due after 1.005 s"


def test_a_late_answer_breaks_the_row() -> None:
    assert recovery.recovered(cycles(*["ok"] * 10, "late", *["ok"] * UNBROKEN), FAULT) == 11


def test_without_ten_answers_in_a_row_it_never_recovers() -> None:
    assert recovery.recovered(cycles(*["ok"] * 5, *["lost"] * 4, *["ok"] * 9), FAULT) is None
    assert recovery.recovered(cycles(*["ok"] * 9), FAULT) is None


@given(st.lists(st.sampled_from(["ok", "late", "lost"]), max_size=60))
def test_whatever_the_cycles_the_first_unbroken_row_is_found(statuses: list[str]) -> None:
    own = cycles(*statuses)
    expected = next(
        (
            i
            for i in range(len(statuses) - 9)
            if own.at_ns[i] >= FAULT.in_force_ns and set(statuses[i : i + 10]) == {"ok"}
        ),
        None,
    )
    assert recovery.recovered(own, FAULT) == expected


def test_cycles_lost_long_before_the_fault_are_not_laid_at_its_door(tmp_path: Path) -> None:
    (own,) = recovery.of(bundle_of(tmp_path, replace(KILLED, interval_ms=100, lost=10), messages=200))
    for each in own.recoveries:
        assert 4 <= each.lost <= 4 + 10
    assert sum(each.lost for each in own.recoveries) < 8 * 14


def test_a_repetition_that_never_recovers_is_counted_shown_and_ranks_last(tmp_path: Path) -> None:
    (own,) = recovery.of(bundle_of(tmp_path, replace(KILLED, outage_ms=60_000)))
    assert own.never == len(own.recoveries) == 8
    assert math.isinf(own.median.value_us)
    (row,) = recovery_table.table([own]).rows
    assert "never [never, never]" in row
    assert any(cell.startswith("> ") for cell in row), "as long as it was watched"
    assert "8" in row


def test_the_median_ranks_those_that_never_recover_behind_all_others() -> None:
    some = recovery.median(np.array([10.0, 20.0, 30.0, math.inf, math.inf, 40.0, 50.0]))
    assert (some.value_us, some.low_us, some.high_us) == (40.0, 10.0, math.inf)
    assert recovery.median(np.array([1.0, math.inf])).value_us == math.inf
    assert recovery.median(np.array([1.0, 3.0])).value_us == 2.0
    assert recovery.median(np.array([1.0] * 5)).low_us is None, "five values allow no interval"


def test_the_interval_of_the_median_covers_it_as_often_as_it_says() -> None:
    rng = np.random.default_rng(1)
    draws = rng.lognormal(0, 1, size=(2000, 10))
    covered = 0
    for own in draws:
        estimate = recovery.median(own)
        assert estimate.low_us is not None
        assert estimate.high_us is not None
        covered += estimate.low_us <= 1.0 <= estimate.high_us
    assert covered / len(draws) >= 0.95


def test_a_fault_without_its_proof_is_none(tmp_path: Path) -> None:
    def unproved(document: dict[str, object]) -> None:
        for entry in document["repetitions"]:  # type: ignore[attr-defined]
            entry["fault"]["evidence"] = []

    bundle = read(write(tmp_path / "bundle", Spec(cells=(KILLED,), edit=unproved)))
    assert recovery.of(bundle) == ()


def test_summary_table_csv_and_figure_say_the_same_and_can_be_made_again(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, KILLED, CellSpec(arm="none"), replace(KILLED, arm="long", outage_ms=700))
    summaries = per_cell.summarise(bundle)
    derived.write(bundle, summaries, bundle.folder)
    rows = list(csv.DictReader(io.StringIO((bundle.folder / "summary.csv").read_text())))
    medians = {row["arm"]: float(row["value_us"]) for row in rows if row["metric"] == "recovery"}
    assert set(medians) == {"broker:kill", "long"}, "nothing broke in the other"
    assert medians["long"] > medians["broker:kill"] > 400_000
    each = list(csv.DictReader(io.StringIO((bundle.folder / "recovery.csv").read_text())))
    assert len(each) == 16
    own = sorted(int(row["recovery_us"]) for row in each if row["arm"] == "long")
    assert medians["long"] == pytest.approx((own[3] + own[4]) / 2)
    text = (bundle.folder / "table.md").read_text()
    assert "Recovery: from the fault to the first answer of 10 in a row" in text
    assert {path.suffix for path in (bundle.folder / "figures").glob("recovery.*")} == {".png", ".svg", ".pdf"}
    assert verify.verify(bundle.folder).findings == ()


def test_the_page_shows_what_each_fault_cost(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, KILLED, replace(KILLED, arm="long", outage_ms=60_000), repetitions=3)
    summaries = per_cell.summarise(bundle)
    page = report.render(bundle, summaries, answer.of(bundle, summaries))
    assert 'href="#recovery"' in page
    assert answer.of(bundle, summaries).sentence.startswith("broker:kill: answers again after 40")
    assert "broker:kill: answers again after 40" in page
    assert "3 of 3 repetitions never recovered, 50.0 cycles lost each." in page
    assert '<img class="wide" src="data:image/png;base64,' in page


def test_cells_with_the_same_fault_are_told_apart(tmp_path: Path) -> None:
    words = recovery.sentence(recovery.of(bundle_of(tmp_path, KILLED, replace(KILLED, qos=1), repetitions=3)))
    assert "broker:kill, QoS 0: answers" in words
    assert "broker:kill, QoS 1: answers" in words
    assert "20 ms, " not in words


def test_a_run_without_faults_has_no_trace_of_them(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, CellSpec())
    derived.write(bundle, per_cell.summarise(bundle), bundle.folder)
    assert not (bundle.folder / "recovery.csv").exists()
    assert not list((bundle.folder / "figures").glob("recovery.*"))
    assert "recovery" not in (bundle.folder / "summary.csv").read_text()
    assert 'id="recovery"' not in (bundle.folder / "report.html").read_text()
    assert compact(recovery_table.table(())).rows == ()


def test_each_panel_shows_every_cycle_of_its_cell(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, replace(KILLED, late=2))
    (panel,) = recovery_figure.panels(bundle, recovery.of(bundle))
    counts = {name: sum(r.counts[name] for r in bundle.repetitions) for name in ("ok", "late", "lost")}
    assert (len(panel.answered), len(panel.late), len(panel.lost_s)) == (counts["ok"], counts["late"], counts["lost"])
    assert panel.lost_s.min() >= 0
    assert panel.lost_s.max() < 0.4
    assert np.isfinite(panel.answered).all()


def test_cells_are_told_apart_by_what_broke(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, KILLED, replace(KILLED, arm="frozen", fault="broker:freeze:1s"))
    cells: tuple[Cell, ...] = bundle.cells
    assert [cell.fault for cell in cells] == ["broker:kill", "broker:freeze:1s"]
    assert " · ".join(derived.conditions_of(bundle)).count("fault broker:kill | broker:freeze:1s") == 1
    assert summary.render(per_cell.summarise(bundle), bundle.axes).count("recovery,p50") == 2


def by_planned(*headline: str) -> Callable[[dict[str, Any]], None]:
    """Edits a bundle's plan to have this headline."""

    def edit(document: dict[str, Any]) -> None:
        document["plan"]["headline"] = list(headline)

    return edit


def compared(tmp_path: Path, *cells: CellSpec, repetitions: int = 8) -> answer.Answer:
    edit = by_planned("recovery.p50", "missed.share_percent")
    spec = Spec(name="study-faults", cells=cells, repetitions=repetitions, edit=edit, proofs=False)
    bundle = read(write(tmp_path / "bundle", spec))
    return answer.of(bundle, per_cell.summarise(bundle))


def test_a_longer_recovery_is_a_verdict_on_the_headline(tmp_path: Path) -> None:
    found = compared(tmp_path, KILLED, replace(KILLED, arm="long", outage_ms=700))
    (effect,) = found.effects
    claim = effect.headline
    assert (str(claim.quantity), claim.verdict, claim.headline) == ("recovery.p50", "slower", True)
    assert claim.difference == pytest.approx(300_000, rel=0.1)
    assert 0 < claim.low < claim.difference < claim.high < math.inf
    assert "Slower than broker:kill in median recovery time: broker:kill, long." in found.sentence


def test_the_same_recovery_is_no_verdict_of_a_difference(tmp_path: Path) -> None:
    (effect,) = compared(tmp_path, KILLED, replace(KILLED, arm="again"), repetitions=20).effects
    assert not effect.headline.sure
    assert effect.headline.verdict in {"the same", "cannot tell"}


def test_a_loop_that_never_recovers_is_slower_than_any_and_the_other_is_faster(tmp_path: Path) -> None:
    never = replace(KILLED, arm="never", outage_ms=60_000)
    (slower,) = compared(tmp_path / "1", KILLED, never).effects
    (faster,) = compared(tmp_path / "2", never, replace(KILLED, arm="kill")).effects
    assert (slower.headline.verdict, faster.headline.verdict) == ("slower", "faster")
    assert math.isinf(slower.headline.b)
    assert slower.headline.quantity.text(slower.headline.b) == "never"
    (panel, *_) = forest.panels(compared(tmp_path / "3", KILLED, never))
    assert panel.headline
    assert panel.rows[0].amount.endswith("→ never")


def test_too_few_repetitions_are_no_verdict(tmp_path: Path) -> None:
    (effect,) = compared(tmp_path, KILLED, replace(KILLED, arm="long", outage_ms=700), repetitions=3).effects
    assert effect.headline.verdict == "cannot tell"
    assert (effect.headline.low, effect.headline.high) == (-math.inf, math.inf)


def test_recovery_has_its_place_on_the_first_screen(tmp_path: Path) -> None:
    edit = by_planned("recovery.p50")
    cells = (KILLED, replace(KILLED, arm="never", outage_ms=60_000))
    bundle = read(write(tmp_path / "bundle", Spec(cells=cells, repetitions=8, edit=edit)))
    summaries = per_cell.summarise(bundle)
    page = report.render(bundle, summaries, answer.of(bundle, summaries))
    first, _ = page.split('id="recovery"', 1)
    assert "median recovery time, against broker:kill" in first
    assert "Every repetition in the order run: recovery time" in first
    assert "never recovered</span>" in first, "in the key of the marks"
    found = summaries[0].interval(Quantity("recovery", "p50"))
    assert found is not None
    assert found.low is not None
    assert found.low <= found.value


def test_a_false_alarm_is_rare() -> None:
    rng = np.random.default_rng(3)
    alarms = 0
    for seed in range(200):
        scores = []
        for _ in range(2):
            times = rng.lognormal(12, 0.3, size=8)
            times[rng.random(8) < 0.1] = math.nan
            values = np.where(np.isnan(times), MISSING, np.nan_to_num(times)).astype(np.int64)
            scores.append(distribution.of_values(values, np.arange(8), MISSING))
        measure = measures._recovery(*scores)
        sides = inference.Sides(
            measure.scores_a[:, None], measure.scores_b[:, None], np.array([measure.quantum]), np.array([0])
        )
        ((result,),) = inference.judge([sides], (seed,))
        alarms += result.sure
    assert alarms / 200 <= 0.05


def test_of_many_cells_the_sentence_tells_the_extremes_and_the_table_each(tmp_path: Path) -> None:
    outages_ms = {"disk:full": 50, "broker:kill": 200, "pi:kill": 300, "pi:freeze:1s": 400, "serial:garbage": 60_000}
    cells = [replace(KILLED, arm=fault, fault=fault, outage_ms=ms) for fault, ms in outages_ms.items()]
    bundle = bundle_of(tmp_path, *cells, repetitions=3)
    words = recovery.sentence(recovery.of(bundle))
    assert words.startswith("The loop answers again soonest after disk:full (")
    assert ", latest after pi:freeze:1s (" in words
    assert "in half of the repetitions or more never after serial:garbage." in words
    assert "Most cycles were lost after serial:garbage: 50.0 a repetition." in words
    found = recovery_table.table(recovery.of(bundle))
    assert "arm" not in found.header, "it says nothing that the fault does not"
    assert [row[3] for row in found.rows] == list(outages_ms)

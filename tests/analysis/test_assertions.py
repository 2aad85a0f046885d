# SPDX-License-Identifier: Apache-2.0
"""What a run was to show, judged on the interval."""

import json
from pathlib import Path
from typing import Any

import pytest
import synthetic
from synthetic import CellSpec, Latency, Spec
from test_analysis_cli import run

from analysis.judging import assertions
from analysis.judging.checks import FAIL, PASS, UNKNOWN, Outcome
from analysis.reading.bundle import BundleError, read
from analysis.statistics import per_cell


def written(folder: Path, *asserted: str, cells: tuple[CellSpec, ...] = (CellSpec(),), **values: Any) -> Path:
    def edit(document: dict[str, Any]) -> None:
        document["plan"]["assertions"] = list(asserted)

    return synthetic.write(folder, Spec(cells=cells, edit=edit, **{"repetitions": 10, **values}))


def judged(folder: Path) -> Outcome:
    bundle = read(folder)
    outcome = assertions.judge(bundle, per_cell.summarise(bundle))
    assert outcome is not None
    return outcome


def test_a_limit_is_met_missed_or_unclear_by_the_whole_interval(tmp_path: Path) -> None:
    median = per_cell.summarise(read(written(tmp_path / "a")))[0].estimates["T"]["p50"]
    assert median.low_us is not None
    assert median.high_us is not None
    for limit_us, verdict in [
        (median.high_us + 1, PASS), (median.low_us - 1, FAIL), (median.value_us, UNKNOWN),
    ]:  # fmt: skip
        below = judged(written(tmp_path / f"below-{verdict}", f"T.p50<{limit_us:.2f}us"))
        assert below.verdict == verdict
        above = judged(written(tmp_path / f"above-{verdict}", f"T.p50>{limit_us:.2f}us"))
        assert above.verdict == {PASS: FAIL, FAIL: PASS, UNKNOWN: UNKNOWN}[verdict]


def test_one_that_fails_fails_all_and_is_said_with_its_figures(tmp_path: Path) -> None:
    outcome = judged(written(tmp_path / "a", "T.p50<100ms", "O.p99<100us"))
    assert (outcome.verdict, outcome.code) == (FAIL, 1)
    assert outcome.sentence.startswith("Not as asserted: O.p99<100us in ")


def test_losses_beyond_a_limit_fail_and_no_loss_at_all_passes(tmp_path: Path) -> None:
    assert judged(written(tmp_path / "a", "losses<5%", cells=(CellSpec(lost=20),))).verdict == FAIL
    assert judged(written(tmp_path / "b", "losses<5%")).verdict == PASS


def test_no_loss_in_few_cycles_does_not_show_that_losses_are_rare(tmp_path: Path) -> None:
    assert judged(written(tmp_path / "a", "losses<0.01%", repetitions=3, messages=20)).verdict == UNKNOWN


def test_a_percentile_among_the_lost_is_beyond_any_limit(tmp_path: Path) -> None:
    outcome = judged(written(tmp_path / "a", "T.p99<10s", cells=(CellSpec(lost=10),)))
    assert outcome.verdict == FAIL
    assert "losses cut the p99 of T" in outcome.sentence


def test_every_cell_must_show_it(tmp_path: Path) -> None:
    cells = (CellSpec(interval_ms=50), CellSpec(interval_ms=20, latency=Latency(shift_us=20_000)))
    outcome = judged(written(tmp_path / "a", "T.p50<10ms", cells=cells))
    assert [check.verdict for check in outcome.checks] == [PASS, FAIL]


def test_what_is_asserted_of_an_arm_binds_no_other(tmp_path: Path) -> None:
    cells = (CellSpec(arm="none", latency=Latency(shift_us=20_000)), CellSpec(arm="fifo both"))
    outcome = judged(written(tmp_path / "a", "fifo both:T.p50<10ms", "losses<5%", cells=cells))
    assert [(check.what, check.verdict) for check in outcome.checks] == [
        ("losses<5%", PASS), ("fifo both:T.p50<10ms", PASS), ("losses<5%", PASS),
    ]  # fmt: skip
    assert outcome.sentence == "As asserted: losses<5% in all 2 cells; fifo both:T.p50<10ms in fifo both."
    with pytest.raises(BundleError, match="is about no arm of it"):
        judged(written(tmp_path / "b", "fifo:T.p50<10ms", cells=cells))


def test_a_run_that_asserts_nothing_has_no_outcome(bundle: Path) -> None:
    assert assertions.judge(read(bundle), ()) is None


def test_nonsense_in_a_strangers_plan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"plan\.assertions"):
        judged(written(tmp_path / "a", "rm -rf"))


@pytest.mark.parametrize(("asserted", "code"), [("T.p50<1s", 0), ("T.p50<1us", 1), ("T.p99.9<1s", 3)])
def test_summarise_ends_with_the_verdict_and_leaves_derived_files(tmp_path: Path, asserted: str, code: int) -> None:
    folder = written(tmp_path / "a", asserted)
    done = run("summarise", folder)
    assert done.returncode == code, done.stdout + done.stderr
    document = json.loads((folder / "assert.json").read_text())
    assert document["exit_code"] == code
    assert document["sentence"] in " ".join(done.stdout.split())
    assert "assert.xml" in (folder / "derived.SHA256SUMS").read_text()
    assert run("verify", folder).returncode == 0

# SPDX-License-Identifier: Apache-2.0
"""Bundles of families that nobody here knows go through everything: axes and metrics are what the bundle says."""

import json
import math
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import synthetic
from synthetic import ECHO, SERVER, CellSpec, Facts, Latency, Spec

from analysis.judging import answer, assertions, compare, gate, headline, power, reproduction, warnings
from analysis.judging.checks import FAIL, PASS
from analysis.judging.compare import SLOWER, UNKNOWN
from analysis.reading import integrity, labels
from analysis.reading.bundle import Bundle, BundleError, read
from analysis.reading.selection import Selection, select
from analysis.showing import conditions, derived, figures, overview, summary, tables, timeline
from analysis.showing.control import path
from analysis.showing.verify import verify
from analysis.statistics import per_cell, recovery
from analysis.statistics.quantity import Quantity


def cell(size: int, interval_ms: int = 20, **fields: Any) -> CellSpec:
    return CellSpec(
        interval_ms=interval_ms, places={"size_bytes": size}, knobs={"server": {"tcp": "nodelay"}}, **fields
    )


ROOT = Path(__file__).parents[2]
SMALL, LARGE = cell(64), cell(4096, latency=Latency(shift_us=800))
ARMS = (
    cell(64, arm="none"), cell(64, arm="nagle", latency=Latency(shift_us=900)),
    cell(4096, arm="none"), cell(4096, arm="nagle", latency=Latency(shift_us=900)),
)  # fmt: skip


def without_board(document: dict[str, Any]) -> None:
    for planned in document["plan"]["cells"]:
        del planned["board"]


def echo(folder: Path, *cells: CellSpec, **fields: Any) -> Path:
    spec = Spec(name="echo", family=ECHO, cells=cells, repetitions=6, messages=60, edit=without_board)
    return synthetic.write(folder, replace(spec, **fields))


def server(folder: Path, *transports: str, **fields: Any) -> Path:
    cells = tuple(
        CellSpec(places={"transport": name}, latency=Latency(shift_us=300 * i), lost=2)
        for i, name in enumerate(transports)
    )
    return synthetic.write(folder, replace(Spec("server", cells, messages=60, family=SERVER), **fields))


def asking(headline: Iterable[str] = (), assertions: Iterable[str] = ()) -> Any:
    def edit(document: dict[str, Any]) -> None:
        without_board(document)
        document["plan"] |= {"headline": list(headline), "assertions": list(assertions)}

    return edit


def whole(bundle: Bundle, text: str = "it") -> Selection:
    return Selection(text, bundle, bundle.cells)


def test_axes_metrics_and_what_is_derived_from_the_first_are_read(tmp_path: Path) -> None:
    bundle = read(echo(tmp_path / "e", SMALL, LARGE))
    assert ([axis.name for axis in bundle.axes], bundle.round_trip) == (["interval_ms", "size_bytes"], "RTT")
    assert [own.values for own in bundle.cells] == [(20, 64), (20, 4096)]
    assert bundle.cells[1].label == "scenario 1, 20 ms, 4096 bytes"
    assert bundle.family.latencies == ("RTT", "RTT_intended")
    found = per_cell.summarise(bundle)[0]
    assert list(found.estimates) == ["RTT", "RTT_intended"]
    rows = pl.read_parquet(bundle.folder / "samples.parquet").filter(~pl.col("warmup"), pl.col("size_bytes") == 64)
    assert found.estimates["RTT"]["avg"].value_us == pytest.approx(rows["rtt_us"].mean())
    since_due = (rows["received_ns"] - rows["intended_ns"]) / 1000
    assert found.estimates["RTT_intended"]["p50"].value_us == pytest.approx(since_due.median(), abs=1)


def test_a_name_on_an_axis_and_a_share_of_the_round_trip_are_read(tmp_path: Path) -> None:
    bundle = read(server(tmp_path / "s", "tcp", "quic v1"))
    assert list(integrity.findings(bundle)) == []
    assert bundle.family.remainder == "Way"
    assert [own.values for own in bundle.cells] == [("tcp",), ("quic v1",)]
    found = per_cell.summarise(bundle)[1]
    assert list(found.estimates) == ["Whole", "Work", "Way", "Whole_intended"]
    answered = {metric: own.offered for metric, own in found.distributions.items()}
    assert answered == {"Whole": 300, "Work": 290, "Way": 300, "Whole_intended": 300}
    assert found.cell.deadline_ms == bundle.plan["timeout_ms"], "no interval, so an answer is late when it is given up"


def test_everything_is_derived_and_verifies(tmp_path: Path) -> None:
    bundle = read(echo(tmp_path / "e", *ARMS, resources=True))
    written = derived.write(bundle, per_cell.summarise(bundle), bundle.folder)
    assert not written.left_out
    report = verify(bundle.folder)
    assert report.findings == ()
    assert "36 counted repetitions" not in report.held[1]
    assert report.held[1] == "24 counted repetitions: counts add up, proofs hold"
    drawn = {path.stem for path in (bundle.folder / "figures").glob("*.svg")}
    assert drawn == {
        "cdf-scenario-1-20ms-64bytes-RTT", "cdf-scenario-1-20ms-4096bytes-RTT", "forest", "repetitions",
    }  # fmt: skip


def test_a_difference_is_checked_and_told_as_held(tmp_path: Path) -> None:
    folder = server(tmp_path / "s", "tcp")
    assert "30 counted repetitions" not in verify(folder).held[1]
    assert verify(folder).held[1] == "5 counted repetitions: counts add up, Way = Whole − Work, proofs hold"
    samples = pl.read_parquet(folder / "samples.parquet")
    samples.with_columns(pl.col("way_us") + 1, pl.col("work_us") - 10_000).write_parquet(folder / "samples.parquet")
    told = " ".join(integrity.findings(read(folder)))
    assert "Way is not Whole − Work; first at scenario 1, transport tcp, repetition 1" in told
    assert "a negative latency" in told
    samples.with_columns(pl.col("whole_us") + 9).write_parquet(folder / "samples.parquet")
    assert "Whole is not received − sent" in " ".join(integrity.findings(read(folder)))


def test_a_metrics_column_must_be_there(tmp_path: Path) -> None:
    folder = echo(tmp_path / "e", SMALL)
    pl.read_parquet(folder / "samples.parquet").drop("rtt_us").write_parquet(folder / "samples.parquet")
    with pytest.raises(BundleError, match="column rtt_us is missing"):
        read(folder)


def test_the_summary_and_the_tables_have_the_axes_and_the_metrics(tmp_path: Path) -> None:
    bundle = read(echo(tmp_path / "e", SMALL, LARGE))
    summaries = per_cell.summarise(bundle)
    header, first, *_ = summary.render(summaries, bundle.axes).splitlines()
    columns = "scenario,interval_ms,size_bytes,metric,statistic,value_us,count,confidence_low,confidence_high"
    assert header == columns
    assert first.startswith("1,20,64,RTT,min,")
    latencies = tables.latencies(summaries, intervals=False)
    assert latencies.header[:4] == ("scenario", "interval", "size", "metric")
    assert latencies.rows[1][:4] == ("1", "20 ms", "4096 bytes", "RTT")
    assert summary.render((), bundle.axes) == columns + "\n"


def test_labels_and_conditions_say_the_axes_in_their_own_words(tmp_path: Path) -> None:
    cells = read(echo(tmp_path / "e", SMALL, cell(64, interval_ms=50), LARGE)).cells
    assert labels.of_cells(cells)[1] == "undisturbed, every 50 ms, 64 bytes"
    assert conditions.of_cells(cells)[:2] == ["contention none", "size 64 bytes | 4096 bytes"]
    transports = read(server(tmp_path / "s", "tcp", "quic v1")).cells
    assert labels.of_cells(transports)[1] == "undisturbed, over quic v1"
    (plot, *_) = figures.of_bundle(run := read(tmp_path / "s"), per_cell.summarise(run))
    assert (plot.title, plot.metric.title) == ("Scenario 1", "Whole: from request to answer")


def test_cells_are_selected_and_paired_by_the_axes(tmp_path: Path) -> None:
    folder = echo(tmp_path / "e", SMALL, LARGE)
    assert select(f"{folder}#size_bytes=4096,interval_ms=20", read).cells[0].values == (20, 4096)
    assert select(f"{server(tmp_path / 's', 'tcp', 'udp')}#transport=udp", read).cells[0].values == ("udp",)
    with pytest.raises(BundleError, match="allowed: scenario, arm, interval_ms, size_bytes"):
        select(f"{folder}#qos=0", read)


def test_arms_are_compared_and_the_answer_is_told_in_the_familys_words(tmp_path: Path) -> None:
    bundle = read(echo(tmp_path / "e", *ARMS, repetitions=10))
    found = answer.of(bundle, per_cell.summarise(bundle))
    assert [str(quantity) for quantity in found.question.headlines] == ["RTT.p50", "RTT.p99"]
    assert {claim.metric for claim in found.claims} == {"RTT", "missed", "lost"}
    assert [effect.headline.verdict for effect in found.effects] == [SLOWER, SLOWER]
    assert all(effect.control is None for effect in found.effects), "nobody said what should not move"
    assert "slower than no priority, 64 bytes in median of RTT" in found.sentence


def test_runs_are_compared_and_judged_by_a_gate(tmp_path: Path) -> None:
    edit = asking(["RTT.p50"])
    a, b = (
        read(
            echo(tmp_path / name, cell(64, latency=Latency(shift_us=shift)), repetitions=10, data_seed=seed, edit=edit)
        )
        for name, shift, seed in (("a", 0, 1), ("b", 1500, 2))
    )
    claims = {str(claim.quantity): claim for claim in compare.compare(whole(a), whole(b)).claims}
    assert claims["RTT.p50"].verdict == SLOWER
    assert claims["RTT.avg"].of_answered
    outcome = gate.judge(a, b)
    assert outcome.verdict == FAIL
    assert "median of RTT" in outcome.sentence
    assert "3 contradicted" not in reproduction.summary(reproduction.outcomes(a, a))


def test_of_an_answered_only_metric_losses_make_every_statistic_one_that_they_may_flatter(tmp_path: Path) -> None:
    a, b = (read(server(tmp_path / str(seed), "tcp", repetitions=8, data_seed=seed)) for seed in (1, 2))
    claims = compare.compare(whole(a), whole(b)).claims
    assert {str(claim.quantity) for claim in claims if claim.of_answered and claim.quantity.is_latency} == {
        "Whole.avg", "Work.avg", "Work.p50", "Work.p90", "Work.p99", "Way.avg",
    }  # fmt: skip
    silent = CellSpec(places={"transport": "tcp"}, silent=(1, 2, 3))
    bundle = read(synthetic.write(tmp_path / "silent", Spec("s", (silent,), repetitions=3, family=SERVER)))
    (found,) = per_cell.summarise(bundle)
    assert found.interval(Quantity("Work", "p50")) is None
    cut = found.interval(Quantity("Way", "p50"))
    assert cut is not None
    assert math.isinf(cut.value)


def test_assertions_and_headlines_name_the_bundles_metrics_only(tmp_path: Path) -> None:
    asserted = asking(["RTT.p90", "missed"], ["RTT.p50<100ms", "RTT_intended.avg<100ms", "misses<50%"])
    bundle = read(echo(tmp_path / "e", SMALL, edit=asserted))
    outcome = assertions.judge(bundle, per_cell.summarise(bundle))
    assert outcome is not None
    assert outcome.verdict == PASS
    assert [str(quantity) for quantity in headline.of(bundle).headlines] == ["RTT.p90", "missed.share_percent"]
    other = read(echo(tmp_path / "o", SMALL, edit=asking(["O.p99"], ["O.p99<5ms"])))
    with pytest.raises(BundleError, match=r"plan.assertions: .*allowed are RTT, RTT_intended, lost"):
        assertions.judge(other, ())
    with pytest.raises(BundleError, match=r"plan.headline: 'O.p99' is unknown; metrics are RTT, RTT_intended"):
        headline.of(other)


def test_no_default_of_the_control_loop_reaches_another_family(tmp_path: Path) -> None:
    contended = read(echo(tmp_path / "e", replace(SMALL, contention="cpu"), name="study-qos"))
    assert [str(quantity) for quantity in headline.of(contended).headlines] == ["RTT.p50", "RTT.p99"]
    assert not tables.faults(per_cell.summarise(contended))
    with pytest.raises(BundleError, match="of the family echo; the path is the control loop's"):
        path.read(contended)


def test_differences_are_planted_in_all_that_has_the_round_trip_in_it(tmp_path: Path) -> None:
    bundle = read(server(tmp_path / "s", "tcp", repetitions=6))
    grid = power.table(bundle, 2)
    assert [row[3] for row in grid.rows[:3]] == ["nothing", "Whole + 0.2 ms", "Whole + 0.5 ms"]
    assert power.times(bundle.family) == {"Whole": 1, "Work": 0, "Way": 1, "Whole_intended": 1}


def test_recoveries_timelines_and_warnings_go_by_the_round_trip(tmp_path: Path) -> None:
    folder = echo(
        tmp_path / "e", cell(64, fault="server:kill", outage_ms=200), messages=150, resources=True, repetitions=3
    )
    bundle = read(folder)
    summaries = per_cell.summarise(bundle)
    header, row, *_ = recovery.render(recovery.of(bundle)).splitlines()
    assert header == "order,arm,interval_ms,size_bytes,repetition,fault,recovery_us,watched_us,lost,late,duplicate"
    assert row.startswith("0,,20,64,1,server:kill,")
    assert max(timeline.of(bundle)[0]["repetitions"][0]["t"]) == max(
        pl.read_parquet(folder / "samples.parquet")
        .filter(pl.col("repetition") == 1, ~pl.col("warmup"))["rtt_us"]
        .drop_nulls()
    )
    assert derived.write(bundle, summaries, bundle.folder).answer.sentence
    late = read(echo(tmp_path / "late", cell(64, lateness_us=4000)))
    told = " ".join(caution.line for caution in warnings.of(late, per_cell.summarise(late)))
    assert "p99 of RTT from the intended time exceeds RTT's" in told
    assert "Read RTT_intended; give" in told


def test_runs_of_one_family_are_laid_over_each_other_and_put_on_one_page(tmp_path: Path) -> None:
    runs = [read(echo(tmp_path / name, replace(SMALL, scenario=name), name=name)) for name in ("a", "b")]
    read_ = [(run, per_cell.summarise(run)) for run in runs]
    assert [plot.name for plot in figures.overlays(read_)] == ["cdf-a-b-20ms-64bytes-RTT"]
    page = overview.write(read_, tmp_path / "into").file.read_text()
    assert "a cycle every 20 ms, 64 bytes" in page
    assert "thesis" not in page.partition("<main>")[2].partition("<script")[0].replace("thesis</i>", "")


@pytest.mark.parametrize("other", ["family", "axes", "metrics"])
def test_what_is_about_different_things_is_refused_in_one_line(tmp_path: Path, other: str) -> None:
    changes: dict[str, Facts] = {
        "family": {"family": "ohce"},
        "axes": {"axes": [*ECHO["axes"], {"name": "qos", "words": "QoS {}", "short": "QoS {}"}]},
        "metrics": {"metrics": [ECHO["metrics"][0] | {"name": "Round"}]},
    }
    changed = ECHO | changes[other]
    a, b = read(echo(tmp_path / "a", SMALL)), read(echo(tmp_path / "b", SMALL, family=changed))
    told = {
        "family": "different families: echo → ohce",
        "axes": "different axes: interval_ms, size_bytes → interval_ms, size_bytes, qos",
        "metrics": "different metrics: RTT → Round",
    }[other]
    for refused in (
        lambda: compare.compare(whole(a), whole(b), force=True),
        lambda: reproduction.outcomes(a, b),
        lambda: overview.write([(a, ()), (b, ())], tmp_path / "into"),
        lambda: list(figures.overlays([(a, ()), (b, ())])),
    ):
        with pytest.raises(BundleError, match=f"/a and .*/b are not comparable: {told}$"):
            refused()
    outcome = gate.judge(a, b)
    assert (outcome.verdict, outcome.code) == (UNKNOWN, 3)
    assert told in outcome.sentence


def test_other_words_for_the_same_axes_and_metrics_are_no_obstacle(tmp_path: Path) -> None:
    words = ECHO | {
        "axes": [axis | {"short": "[{}]"} for axis in ECHO["axes"]],
        "metrics": [ECHO["metrics"][0] | {"words": "there and back"}],
    }
    a, b = read(echo(tmp_path / "a", SMALL)), read(echo(tmp_path / "b", SMALL, family=words))
    assert compare.compare(whole(a), whole(b)).claims


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"axes": [{"name": "late_us", "words": "{}", "short": "{}"}]}, "axes: 'late_us' is taken twice"),
        ({"metrics": [ECHO["metrics"][0] | {"name": "lost"}]}, "metrics: 'lost' is taken twice"),
        ({"metrics": [*ECHO["metrics"], {"name": "RTT_intended", "column": "x", "words": ""}]}, "is taken twice"),
    ],
)
def test_names_that_are_derived_here_are_not_a_familys(tmp_path: Path, changes: dict[str, Any], told: str) -> None:
    folder = echo(tmp_path / "e", SMALL)
    file = folder / "bundle.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    with pytest.raises(BundleError, match=told):
        read(folder)


def test_an_axis_has_numbers_or_names(tmp_path: Path) -> None:
    folder = server(tmp_path / "s", "tcp", "udp")
    document = json.loads((folder / "bundle.json").read_text())
    document["plan"]["cells"][1]["transport"] = 7
    (folder / "bundle.json").write_text(json.dumps(document))
    with pytest.raises(BundleError, match=r"plan.cells: transport is a number in one, and a name in another"):
        read(folder)


def test_a_figures_name_is_safe_and_short_whatever_the_axis_says(tmp_path: Path) -> None:
    wild = SERVER | {"axes": [SERVER["axes"][0] | {"short": "../../" + 300 * "x" + " {}/ $(rm)"}]}
    cells = tuple(CellSpec(arm=arm, places={"transport": "tcp"}) for arm in ("a", "b"))
    bundle = read(synthetic.write(tmp_path / "s", Spec("s", cells, messages=5, family=wild)))
    for plot in figures.of_bundle(bundle, per_cell.summarise(bundle)):
        assert len(plot.name) < 160
        assert plot.name.replace("-", "").replace("_", "").isalnum()


def test_a_bundle_that_calls_itself_the_control_loops_without_its_metrics_is_read_like_any(tmp_path: Path) -> None:
    bundle = read(echo(tmp_path / "e", SMALL, family=ECHO | {"family": "control"}))
    assert derived.write(bundle, per_cell.summarise(bundle), bundle.folder).answer.question.metric == "RTT"


def test_the_commands_take_any_family_and_refuse_to_compare_two(tmp_path: Path) -> None:
    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "analysis", *map(str, arguments)]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)

    a, b = echo(tmp_path / "a", SMALL, LARGE), server(tmp_path / "b", "tcp")
    done = run("summarise", a)
    assert (done.returncode, done.stderr) == (0, "")
    assert "4096 bytes" in done.stdout
    for command in ("compare", "reproduced", "overview", "overlay"):
        refused = run(command, a, b, *(["--into", tmp_path / "into"] if command.startswith("over") else []))
        assert refused.returncode == 2
        (line,) = refused.stderr.splitlines()
        assert line.endswith("are not comparable: different families: echo → server")

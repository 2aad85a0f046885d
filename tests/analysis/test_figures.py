# SPDX-License-Identifier: Apache-2.0
"""What the figures draw, point by point."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import synthetic
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from synthetic import CellSpec, Latency, Spec

from analysis.judging import answer
from analysis.reading.bundle import read
from analysis.showing import answer_figures, derived, figures, forest
from analysis.statistics import per_cell
from analysis.statistics.distribution import Distribution
from analysis.statistics.quantity import percentage


def plots_of(folder: Path) -> dict[str, figures.Plot]:
    run = read(folder)
    return {plot.name: plot for plot in figures.of_bundle(run, per_cell.summarise(run))}


def test_a_figure_a_metric_with_a_line_an_interval(scenario_1: Path) -> None:
    plots = plots_of(scenario_1)
    assert sorted(plots) == [f"cdf-scenario-1-{metric}" for metric in "ORT"]
    assert [curve.label for curve in plots["cdf-scenario-1-T"].curves] == [
        f"undisturbed, every {i} ms" for i in (100, 50, 20, 10)
    ]


def drawn(axes: Axes) -> tuple[np.ndarray, np.ndarray]:
    """x and y of the first line."""
    x, y = axes.lines[0].get_data()
    return np.asarray(x), np.asarray(y)


def test_the_drawn_lines_are_the_samples(scenario_1: Path) -> None:
    body, tail = figures.draw(plots_of(scenario_1)["cdf-scenario-1-T"]).axes
    rows = pl.read_parquet(scenario_1 / "samples.parquet").filter(
        ~pl.col("warmup"), pl.col("interval_ms") == 100, pl.col("status") == "ok"
    )
    samples = np.sort(rows["t_us"].to_numpy()) / 1000
    x, below = drawn(body)
    for at, share in zip(x[1:], below[1:], strict=True):
        assert share == pytest.approx((samples <= at).mean())
    x, beyond = drawn(tail)
    for at, share in zip(x, beyond, strict=True):
        assert share == pytest.approx((samples >= at).mean())
    assert (x[-1], beyond[-1]) == (samples[-1], pytest.approx(1 / len(samples)))


def test_thinning_keeps_both_ends_the_slowest_hundred_and_the_shape() -> None:
    rng = np.random.default_rng(1)
    values = np.unique(np.rint(5000 * rng.lognormal(0, 1, 200_000)).astype(np.int64))
    distribution = Distribution(values, np.ones((1, len(values)), dtype=np.int64), np.array([1]), np.array([0]))
    keep = figures.points(distribution)
    assert len(keep) <= 2 * figures.POINTS + 2
    assert keep[0] == 0
    assert np.array_equal(keep[-100:], np.arange(len(values) - 100, len(values)))
    assert np.diff(distribution.pooled[keep] / distribution.total).max() <= 1.05 / figures.POINTS


def test_every_figure_carries_the_notice_and_the_conditions(tmp_path: Path) -> None:
    spec = Spec(notice="placement host: no container engine answered", repetitions=3, messages=10)
    plot = plots_of(synthetic.write(tmp_path / "b", spec))["cdf-scenario-1-O"]
    texts = " ".join(text.get_text() for text in figures.draw(plot).texts)
    for words in ("no container engine answered", "board simavr", "QoS 0", "priority none", "kernel 6.18.5", "TCP"):
        assert words in texts


def test_a_line_ends_where_losses_end_it(tmp_path: Path) -> None:
    folder = synthetic.write(tmp_path / "b", Spec(cells=(CellSpec(lost=3),), repetitions=3, messages=100))
    body, tail = figures.draw(plots_of(folder)["cdf-scenario-1-O"]).axes
    assert drawn(body)[1][-1] == pytest.approx(0.97)
    assert drawn(tail)[1][-1] == pytest.approx(0.03 + 1 / 300)


@pytest.mark.parametrize("arms", [8, 60])
def test_many_lines_are_small_multiples_beside_the_first(tmp_path: Path, arms: int) -> None:
    cells = tuple(CellSpec(arm=f"arm {i}") for i in range(arms))
    folder = synthetic.write(tmp_path / "b", Spec(cells=cells, repetitions=3, messages=10))
    figure = figures.draw(plots_of(folder)["cdf-scenario-1-20ms-qos0-O"])
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert len(shown) == min(arms - 1, figures.PANELS)
    assert all(len({line.get_color() for line in axes.lines}) == 2 for axes in shown)
    texts = " ".join(text.get_text() for text in figure.texts)
    assert ("47 lines whose p99 differs less are not drawn" in texts) == (arms == 60)


def test_nothing_of_the_footer_is_cut_off(tmp_path: Path) -> None:
    knobs = {service: {"priority": "fifo:90", "affinity": "cpus:1", "tcp": "nodelay"} for service in ("broker", "pi")}
    cells = (CellSpec(arm="a", knobs=knobs), CellSpec(arm="b", contention="cpu"))
    folder = synthetic.write(tmp_path / "b", Spec(cells=cells, repetitions=3, messages=10))
    figure = figures.draw(plots_of(folder)["cdf-scenario-1-20ms-qos0-O"])
    renderer = FigureCanvasAgg(figure).get_renderer()
    width = figure.bbox.width
    assert all(text.get_window_extent(renderer).x1 <= width for text in figure.texts)


def test_the_first_screen_is_drawn_for_papers_too(tmp_path: Path) -> None:
    cells = (CellSpec(scenario="2", arm="none", contention="cpu"), CellSpec(scenario="2", arm="fifo", contention="cpu"))
    run = read(synthetic.write(tmp_path / "b", Spec(name="study-x", cells=cells, repetitions=5)))
    summaries = per_cell.summarise(run)
    for name in ("once", "again"):
        answer_figures.save(run, summaries, answer.of(run, summaries), tmp_path / name)
    files = sorted(path.name for path in (tmp_path / "once").iterdir())
    assert files == [f"{name}.{kind}" for name in ("forest", "repetitions") for kind in ("pdf", "png", "svg")]
    assert all((tmp_path / "once" / name).read_bytes() == (tmp_path / "again" / name).read_bytes() for name in files)


def test_a_forest_of_too_many_arms_keeps_what_is_sure_and_the_order_of_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steady, wild = Latency(between_us=10), Latency(between_us=2500)
    latencies = {
        "none": steady,
        "wild": wild,
        "slow": replace(steady, shift_us=900),
        "fast": replace(steady, shift_us=-300),
        "wilder": wild,
    }
    cells = tuple(CellSpec(scenario="2", arm=arm, latency=latency) for arm, latency in latencies.items())
    run = read(
        synthetic.write(tmp_path / "b", Spec(name="study-x", cells=cells, repetitions=12, messages=100, data_seed=4))
    )
    monkeypatch.setattr(forest, "ROWS", 2)
    found = answer.of(run, per_cell.summarise(run))
    titles = {panel.title.split(",")[0]: panel for panel in forest.panels(found)}
    panel = titles["median of T"]
    assert [(row.label, row.kind) for row in panel.rows] == [("fast", "better"), ("slow", "worse")]
    assert panel.left_out == 2


def test_arms_are_lines_of_one_figure(tmp_path: Path) -> None:
    cells = tuple(CellSpec(scenario="4", arm=arm, interval_ms=i) for arm in ("fifo", "other") for i in (50, 20))
    plots = plots_of(synthetic.write(tmp_path / "b", Spec(cells=cells, repetitions=3, messages=10)))
    assert [curve.label for curve in plots["cdf-scenario-4-20ms-qos0-T"].curves] == ["fifo", "other"]


def test_a_figure_is_the_same_bytes_each_time(bundle: Path, tmp_path: Path) -> None:
    plot = plots_of(bundle)["cdf-scenario-1-T"]
    once, again = (figures.save(plot, tmp_path / name) for name in ("once", "again"))
    assert [path.suffix for path in once] == [".png", ".svg", ".pdf"]
    assert [path.read_bytes() for path in once] == [path.read_bytes() for path in again]


def test_scenarios_are_laid_over_each_other_as_in_the_thesis(tmp_path: Path) -> None:
    runs = []
    for scenario in ("0", "1", "2"):
        cells = (CellSpec(scenario=scenario, interval_ms=20), CellSpec(scenario=scenario, interval_ms=10))
        spec = Spec(name=f"scenario-{scenario}", cells=cells, repetitions=3, messages=10)
        run = read(synthetic.write(tmp_path / scenario, spec))
        runs.append((run, per_cell.summarise(run)))
    names = [plot.name for plot in figures.overlays(runs)]
    assert [name for name in names if "20ms" in name] == [
        *(f"cdf-0-1-20ms-qos0-{metric}" for metric in "TRO"),
        "cdf-1-2-20ms-qos0-O",
    ]


def test_what_the_figures_leave_out_is_said(tmp_path: Path) -> None:
    many = tuple(CellSpec(interval_ms=20 + index) for index in range(20))
    folder = synthetic.write(tmp_path / "many", Spec(cells=many, repetitions=3, messages=10))
    run = read(folder)
    assert "figures are drawn: T only" in derived.write(run, per_cell.summarise(run), folder).left_out


@pytest.mark.parametrize(
    ("count", "offered", "said"),
    [
        (0, 400, "0 %"),
        (1, 300, "0.33 %"),
        (1, 4, "25 %"),
        (399, 400, "99 %"),
        (9999, 10_000, "99 %"),
        (400, 400, "100 %"),
    ],
)
def test_a_share_is_whole_only_where_it_is_all(count: int, offered: int, said: str) -> None:
    assert percentage(count, offered) == said

# SPDX-License-Identifier: Apache-2.0
"""The report in a real browser: what it shows, that it fetches nothing, and what happens when it is touched."""

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import synthetic
from selenium import webdriver
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from synthetic import CellSpec, Latency, Spec

from analysis import derived, report, statistics
from analysis.bundle import read

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage"
)
CHROMIUM, DRIVER = shutil.which("chromium") or shutil.which("google-chrome"), shutil.which("chromedriver")
WIDTHS = (360, 800, 1400)


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A priority study: three arms at two intervals, with causes, losses, a notice and a missing proof."""
    arms = {"other": 1500.0, "fifo <broker>": 900.0, "fifo all": 350.0}
    cells = tuple(
        CellSpec(
            scenario="4", arm=arm, interval_ms=interval, contention="cpu", lost=2 if arm == "other" else 0,
            latency=Latency(spread_us=spread, sigma=1.1, between_us=50),
        )
        for interval in (50, 20)
        for arm, spread in arms.items()
    )  # fmt: skip
    spec = Spec(
        name="study-priority", cells=cells, repetitions=6, resources=True, notice="placement host: no engine",
        edit=lambda document: document["repetitions"][0]["proofs"].clear(),
    )  # fmt: skip
    folder = synthetic.write(tmp_path_factory.mktemp("report") / "bundle", spec)
    derived.write(read(folder), statistics.summarise(read(folder)), folder)
    return folder / "report.html"


@pytest.fixture(scope="session")
def chromium() -> Iterator[webdriver.Chrome]:
    if not CHROMIUM or not DRIVER:
        lacking = "no chromium or chromedriver: `apt-get install chromium chromium-driver`"
        if os.environ.get("REQUIRE_BROWSER") == "1":
            pytest.fail(f"REQUIRE_BROWSER=1, but {lacking}", pytrace=False)
        pytest.skip(f"THE REPORT WAS NOT TESTED IN A BROWSER: {lacking}")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    with tempfile.TemporaryDirectory() as profile:
        for flag in (*FLAGS.split(), f"--user-data-dir={profile}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        yield driver
        driver.quit()


@pytest.fixture
def opened(chromium: webdriver.Chrome, page: Path) -> webdriver.Chrome:
    resize(chromium, 1100)
    chromium.get_log("browser")
    chromium.get_log("performance")
    chromium.get(page.as_uri())
    assert chromium.execute_script("return document.documentElement.dataset.ready") == "1"
    return chromium


def resize(driver: webdriver.Chrome, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def one(driver: webdriver.Chrome, selector: str) -> Any:
    return driver.find_element(By.CSS_SELECTOR, selector)


def click(driver: webdriver.Chrome, selector: str) -> None:
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", one(driver, selector))
    one(driver, selector).click()


def paths(driver: webdriver.Chrome) -> list[str]:
    return [line.get_attribute("d") for line in driver.find_elements(By.CSS_SELECTOR, "#cdf path.line")]


def axis(driver: webdriver.Chrome, plot: str = "#cdf") -> list[float]:
    """The numbers at the x axis."""
    script = (
        "return [...document.querySelectorAll(arguments[0] + ' text[text-anchor=middle]')].map((t) => t.textContent)"
    )
    return [float(text) for text in driver.execute_script(script, plot) if text[0].isdigit()]


def test_the_page_opens_without_errors_and_fetches_nothing(opened: webdriver.Chrome, page: Path):
    assert opened.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    requests = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert requests == [page.as_uri()]


def test_it_opens_with_verdicts_and_how_sure_they_are(opened: webdriver.Chrome):
    first = one(opened, "#found li").text
    assert first.startswith("▼ fifo <broker> against other, T every 50 ms, QoS 0: faster, mean by ")
    assert "[" in first
    assert one(opened, ".notice").text == "placement host: no engine"
    assert (
        "tcp on broker has no proof in 1 of 36 repetitions. Do not attribute anything to it"
        in one(opened, "#warnings").text
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out_sideways(opened: webdriver.Chrome, width: int):
    resize(opened, width)
    assert opened.execute_script("return document.documentElement.scrollWidth") <= width
    assert one(opened, "#cdf svg").size["width"] <= width


def test_the_lines_drawn_are_the_samples_point_by_point(opened: webdriver.Chrome, page: Path):
    rows = pl.read_parquet(page.parent / "samples.parquet").filter(
        ~pl.col("warmup"), pl.col("interval_ms") == 50, pl.col("arm") == "fifo all", pl.col("t_us").is_not_null()
    )
    samples = np.sort(rows["t_us"].to_numpy())
    line = opened.execute_script("return DATA.groups[0].lines.find((l) => l.label === 'fifo all').metrics.T")
    assert line["x"] == np.unique(samples).tolist()
    assert line["c"] == [int((samples <= x).sum()) for x in line["x"]]
    assert line["b"] == [int((samples < x).sum()) for x in line["x"]]
    assert line["n"] == len(samples)


def test_hovering_reads_the_distribution_off(opened: webdriver.Chrome):
    plot = one(opened, "#cdf")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    ActionChains(opened).move_to_element(plot).perform()
    text = one(opened, "#distributions .readout").text
    assert text.startswith("T ")
    assert text.count("at or below") == 3
    assert one(opened, "#cdf .cursor").get_attribute("visibility") == "visible"


def test_arms_are_switched_off_and_on(opened: webdriver.Chrome):
    assert len(paths(opened)) == 3
    click(opened, "#distributions .legend label:nth-child(2) input")
    shown = [line.get_attribute("data-label") for line in opened.find_elements(By.CSS_SELECTOR, "#cdf path.line")]
    assert shown == ["other", "fifo all"]
    click(opened, "#distributions .legend label:nth-child(2) input")
    assert len(paths(opened)) == 3


def test_metric_tail_and_cells_are_chosen(opened: webdriver.Chrome):
    body = paths(opened)
    click(opened, "[data-tail='1']")
    assert "beyond" in one(opened, "#cdf").text
    assert paths(opened) != body
    click(opened, "[data-metric='O']")
    assert one(opened, "[data-metric='O']").get_attribute("aria-pressed") == "true"
    assert "O in ms, logarithmic" in one(opened, "#cdf").text
    click(opened, "[data-metric='T']")
    click(opened, "[data-tail='0']")
    assert paths(opened) == body
    one(opened, "[data-group] option[value='1']").click()
    assert paths(opened) != body


def test_dragging_zooms_and_a_double_click_shows_everything(opened: webdriver.Chrome):
    plot, before = one(opened, "#cdf"), axis(opened)
    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    ActionChains(opened).move_to_element_with_offset(plot, -200, 0).click_and_hold().move_by_offset(
        120, 0
    ).release().perform()
    inside = axis(opened)
    assert inside[-1] - inside[0] < (before[-1] - before[0]) / 2
    ActionChains(opened).double_click(plot).perform()
    longest = opened.execute_script("return Math.max(...DATA.groups[0].lines.map((l) => l.metrics.T.x.at(-1))) / 1000")
    assert axis(opened)[-1] > longest * 0.75
    click(opened, "#distributions [data-reset]")
    assert axis(opened) == before


def test_keys_and_buttons_zoom_too(opened: webdriver.Chrome):
    before = axis(opened)
    one(opened, "#cdf").send_keys("+")
    assert axis(opened) != before
    one(opened, "#cdf").send_keys(Keys.ARROW_RIGHT)
    click(opened, "#distributions [data-reset]")
    click(opened, "#distributions [data-zoom='0.6']")
    assert axis(opened) != before


def test_causes_stand_under_the_latency_on_one_axis(opened: webdriver.Chrome):
    panels = opened.find_elements(By.CSS_SELECTOR, "#timelines .plot")
    titles = [panel.find_element(By.TAG_NAME, "svg").get_attribute("aria-label") for panel in panels]
    assert titles[:3] == ["T over time", "waiting for a CPU, µs a sample", "CPU pressure (PSI some), µs a sample"]
    ActionChains(opened).scroll_to_element(panels[0]).move_to_element_with_offset(panels[0], -150, 0).perform()
    ActionChains(opened).click_and_hold().move_by_offset(200, 0).release().perform()
    assert axis(opened, "#panel-0") == axis(opened, "#panel-1")
    assert "waiting broker" in one(opened, "#timelines .readout").text
    assert "Watched, and never above 0: throttled, retransmits, dropped." in one(opened, "#timelines").text


def test_another_repetition_is_another_series_with_its_losses(opened: webdriver.Chrome):
    before = one(opened, "#panel-0 .dots").get_attribute("d")
    assert len(opened.find_elements(By.CSS_SELECTOR, "#panel-0 .lost")) == 2
    one(opened, "[data-repetition] option[value='3']").click()
    assert one(opened, "#panel-0 .dots").get_attribute("d") != before


def test_light_and_dark_and_print_differ(opened: webdriver.Chrome):
    def paper() -> str:
        return str(opened.execute_script("return getComputedStyle(document.body).backgroundColor"))

    light = paper()
    opened.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": "dark"}]}
    )
    dark = paper()
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert not one(opened, ".controls").is_displayed()
    resize(opened, 720)
    assert opened.execute_script("return document.documentElement.scrollWidth") <= 720
    printed = paper()
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
    assert len({light, dark, printed}) == 3


def test_the_page_is_the_same_bytes_each_time(page: Path):
    run = read(page.parent)
    assert report.render(run, statistics.summarise(run)).encode() == page.read_bytes()


def test_names_cannot_break_out_of_the_page(page: Path):
    text = page.read_text(encoding="utf-8")
    assert "fifo <broker>" not in text.split('id="data"')[0]
    assert "fifo &lt;broker&gt;" in text


@pytest.mark.parametrize("status", ["partial", "refused"])
def test_a_run_without_counted_repetitions_has_a_report_too(chromium: webdriver.Chrome, tmp_path: Path, status: str):
    def refuse(document: dict[str, Any]) -> None:
        document["repetitions"] = []

    folder = synthetic.write(tmp_path / "b", Spec(repetitions=2, messages=5, status=status, edit=refuse))
    run = read(folder)
    derived.write(run, statistics.summarise(run), folder)
    chromium.get((folder / "report.html").as_uri())
    assert one(chromium, ".status").text == status
    assert "no repetition counts" in one(chromium, "#found").text
    assert [e for e in chromium.get_log("browser") if e["level"] == "SEVERE"] == []

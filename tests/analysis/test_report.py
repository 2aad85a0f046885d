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

from analysis.judging import answer
from analysis.reading.bundle import read
from analysis.showing import derived, report
from analysis.statistics import per_cell

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
    derived.write(read(folder), per_cell.summarise(read(folder)), folder)
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


def titles(driver: webdriver.Chrome, section: str) -> list[str]:
    """The captions of the plots that a section shows."""
    return [own.text for own in driver.find_elements(By.CSS_SELECTOR, f"#{section} .panels figcaption")]


def scale(driver: webdriver.Chrome, panel: int = 0, axis: str = "x") -> tuple[float, float]:
    """What an axis of a plot spans."""
    low, high = driver.execute_script(
        "const own = panels[arguments[0]].plot.scales[arguments[1]]; return [own.min, own.max]", panel, axis
    )
    return low, high


def unfold(driver: webdriver.Chrome, section: str) -> None:
    driver.execute_script("document.querySelector(`#${arguments[0]} details.section`).open = true", section)
    driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")


def drag(driver: webdriver.Chrome, selector: str) -> None:
    plot = one(driver, selector)
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    ActionChains(driver).move_to_element_with_offset(plot, -80, 0).click_and_hold().move_by_offset(
        90, 0
    ).release().perform()


def test_the_page_opens_without_errors_and_fetches_nothing(opened: webdriver.Chrome, page: Path) -> None:
    unfold(opened, "timelines")
    assert opened.get_log("browser") == []
    events = [json.loads(entry["message"])["message"] for entry in opened.get_log("performance")]
    requests = [e["params"]["request"]["url"] for e in events if e["method"] == "Network.requestWillBeSent"]
    assert requests == [page.as_uri()]


def test_it_opens_with_the_question_the_answer_and_how_sure_it_is(opened: webdriver.Chrome, page: Path) -> None:
    run = read(page.parent)
    found = answer.of(run, per_cell.summarise(run))
    assert one(opened, "h1").text == found.question.text
    assert one(opened, "#answer .sentence").text == found.sentence
    assert one(opened, ".notice").text == "placement host: no engine"
    first = one(opened, "#answer figure.forest tbody tr")
    assert first.text.startswith(found.effects[0].b)
    assert found.effects[0].headline.words in first.text
    assert "lost → " in first.text, "2 % of the first arm's cycles were lost, and its p99 with them"
    assert "[" in one(opened, "#answer figure.forest:nth-of-type(2) tbody tr").text


def test_losses_and_missed_deadlines_stand_on_the_first_screen(opened: webdriver.Chrome) -> None:
    (row,) = [
        row for row in opened.find_elements(By.CSS_SELECTOR, "figure.levels tbody tr")
        if "other" in row.text and "50 ms" in row.text
    ]  # fmt: skip
    assert row.find_element(By.CSS_SELECTOR, "[data-name=lost]").text == "12 (2 %)"
    assert int(row.find_element(By.CSS_SELECTOR, "[data-name=missed]").text.split()[0]) >= 12


def test_every_repetition_is_a_dot(opened: webdriver.Chrome) -> None:
    rows = opened.find_elements(By.CSS_SELECTOR, "figure.order tbody tr")
    assert [len(row.find_elements(By.CSS_SELECTOR, ".strip svg svg")) for row in rows] == [6] * 6


def test_every_link_of_the_menu_leads_somewhere_and_unfolds_it(opened: webdriver.Chrome) -> None:
    for link in opened.find_elements(By.CSS_SELECTOR, "nav a, header a"):
        assert one(opened, "#" + str(link.get_attribute("href")).rpartition("#")[2]).is_displayed()
    opened.execute_script("location.hash = '#proofs'")
    opened.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    assert one(opened, "#proofs table").is_displayed()


def test_a_missing_proof_is_told(opened: webdriver.Chrome) -> None:
    unfold(opened, "warnings")
    told = "tcp on broker has no proof in 1 of 36 repetitions. Do not attribute anything to it"
    assert told in one(opened, "#warnings").text


def test_the_page_is_made_of_landmarks_figures_and_tables_with_scope(opened: webdriver.Chrome) -> None:
    for selector in ("main", "header", "nav[aria-label]", "figure > figcaption"):
        assert opened.find_elements(By.CSS_SELECTOR, selector), selector
    assert not opened.find_elements(By.CSS_SELECTOR, "th:not([scope])")
    assert not opened.find_elements(By.CSS_SELECTOR, ".plot:not([aria-label]), .plot:not([tabindex])")


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_sticks_out_sideways(opened: webdriver.Chrome, width: int) -> None:
    resize(opened, width)
    assert opened.execute_script("return document.documentElement.scrollWidth") <= width
    unfold(opened, "table")
    unfold(opened, "timelines")
    assert opened.execute_script("return document.documentElement.scrollWidth") <= width


def test_the_lines_drawn_are_the_samples_point_by_point(opened: webdriver.Chrome, page: Path) -> None:
    rows = pl.read_parquet(page.parent / "samples.parquet").filter(
        ~pl.col("warmup"), pl.col("interval_ms") == 50, pl.col("arm") == "other"
    )
    samples = np.sort(rows["o_us"].drop_nulls().to_numpy())
    line = opened.execute_script("return DATA.groups[0].lines.find((l) => l.label.includes('other')).metrics.O")
    assert line["x"] == np.unique(samples).tolist()
    assert line["c"] == [int((samples <= x).sum()) for x in line["x"]]
    assert (line["n"], line["lost"]) == (len(samples), 12)


def test_a_lost_cycle_ranks_behind_every_answer(opened: webdriver.Chrome) -> None:
    drawn = opened.execute_script(
        "const line = DATA.groups[0].lines.find((l) => l.label.includes('other')).metrics.O;"
        "return [2, 50, 51, 600].map((nines) => atNines(line, nines) === null)"
    )
    assert drawn == [False, False, True, True], "2 % were lost: the line ends at 98 %, one in 50"
    assert "lost" in opened.execute_script("return document.querySelector('#distributions details').textContent")


def test_hovering_reads_every_line_off(opened: webdriver.Chrome) -> None:
    plot = one(opened, "#distributions .plot .u-over")
    opened.execute_script("arguments[0].scrollIntoView({block: 'center'})", plot)
    ActionChains(opened).move_to_element(plot).perform()
    text = one(opened, "#distributions .readout").text
    assert text.startswith("O: ")
    assert text.count(" ms") == 3


def test_arms_are_switched_off_and_on(opened: webdriver.Chrome) -> None:
    def drawn() -> int:
        return int(opened.execute_script("return panels[0].plot.series.length - 1"))

    assert drawn() == 3
    click(opened, "#distributions .legend label:nth-child(2) input")
    assert drawn() == 2
    click(opened, "#distributions .legend label:nth-child(2) input")
    assert drawn() == 3


def test_metric_bands_and_cells_are_chosen(opened: webdriver.Chrome) -> None:
    before = opened.execute_script("return panels[1].plot.data[0].length")
    click(opened, "[data-metric='R']")
    assert one(opened, "[data-metric='R']").get_attribute("aria-pressed") == "true"
    assert titles(opened, "distributions")[0].startswith("R: ")
    click(opened, "[data-metric='O']")
    click(opened, "[data-band]")
    assert opened.execute_script("return panels[1].plot.bands.length") == 3
    click(opened, "[data-band]")
    assert opened.execute_script("return panels[1].plot.data[0].length") == before
    one(opened, "[data-group] option[value='1']").click()
    assert opened.execute_script("return panels[1].plot.data[0].length") != before


def test_dragging_zooms_and_a_double_click_shows_everything(opened: webdriver.Chrome) -> None:
    before = scale(opened)
    drag(opened, "#distributions .plot .u-over")
    inside = scale(opened)
    assert inside[1] / inside[0] < before[1] / before[0]
    ActionChains(opened).double_click(one(opened, "#distributions .plot .u-over")).perform()
    assert scale(opened) == before


def test_keys_zoom_and_read_off_too(opened: webdriver.Chrome) -> None:
    before, plot = scale(opened), one(opened, "#distributions .plot")
    plot.send_keys("+")
    assert scale(opened) != before
    plot.send_keys("0")
    assert scale(opened) == before
    plot.send_keys(Keys.ARROW_RIGHT)
    assert one(opened, "#distributions .readout").text.startswith("O: ")


def test_more_lines_than_can_be_told_apart_are_small_multiples(chromium: webdriver.Chrome, tmp_path: Path) -> None:
    cells = tuple(CellSpec(scenario="2", arm=f"arm {i}", contention="cpu") for i in range(8))
    folder = synthetic.write(tmp_path / "b", Spec(name="study-x", cells=cells, repetitions=4, messages=30))
    run = read(folder)
    derived.write(run, per_cell.summarise(run), folder)
    resize(chromium, 1100)
    chromium.get((folder / "report.html").as_uri())
    assert len(titles(chromium, "distributions")) == 7
    assert chromium.execute_script("return panels.every((panel) => panel.plot.series.length === 3)")


def test_causes_stand_under_the_latency_on_one_axis(opened: webdriver.Chrome) -> None:
    unfold(opened, "timelines")
    first = titles(opened, "timelines")[0]
    assert first.startswith("T in ms: ")
    assert "repetition 1" in first, "on paper there is no choice that says which"
    assert "; 2 lost" in first
    assert titles(opened, "timelines")[1:3] == [
        "waiting for a CPU, µs a sample",
        "CPU pressure (PSI some), µs a sample",
    ]
    first = opened.execute_script(
        "return panels.findIndex((own) => document.querySelector('#timelines').contains(own.host))"
    )
    before = scale(opened, first)
    drag(opened, "#timelines .plot .u-over")
    assert scale(opened, first) == scale(opened, first + 1) != before
    assert "waiting broker" in one(opened, "#timelines .readout").text
    assert "Watched, and never above 0: throttled, retransmits, dropped." in one(opened, "#timelines").text


def test_another_repetition_is_another_series_and_has_its_table(opened: webdriver.Chrome) -> None:
    unfold(opened, "timelines")
    opened.execute_script("document.querySelector('#timelines details.table').open = true")
    opened.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
    before = one(opened, "#timelines details.table tbody").text
    assert "waiting broker" in before
    one(opened, "[data-repetition] option[value='3']").click()
    assert one(opened, "#timelines details.table tbody").text not in {"", before}


def test_light_and_dark_and_print_differ(opened: webdriver.Chrome) -> None:
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


def test_the_page_is_the_same_bytes_each_time(page: Path) -> None:
    run = read(page.parent)
    summaries = per_cell.summarise(run)
    assert report.render(run, summaries, answer.of(run, summaries)).encode() == page.read_bytes()


def test_names_cannot_break_out_of_the_page(chromium: webdriver.Chrome, tmp_path: Path) -> None:
    arms = ("</script><img src=x onerror=document.title='out'>", "<!--<script>", '"onload="document.title=1')
    cells = tuple(CellSpec(arm=arm) for arm in arms)
    folder = synthetic.write(tmp_path / "b", Spec(name="study-x", cells=cells, repetitions=3, messages=10))
    run = read(folder)
    derived.write(run, per_cell.summarise(run), folder)
    chromium.get_log("browser")
    chromium.get((folder / "report.html").as_uri())
    assert chromium.title == "study-x"
    assert chromium.execute_script("return document.documentElement.dataset.ready") == "1"
    assert arms[1] in one(chromium, "#distributions .legend").text
    assert chromium.get_log("browser") == []


def test_one_warning_is_in_the_singular(chromium: webdriver.Chrome, tmp_path: Path) -> None:
    folder = synthetic.write(tmp_path / "b", Spec(edit=lambda document: document.update(floor=None)))
    run = read(folder)
    derived.write(run, per_cell.summarise(run), folder)
    chromium.get((folder / "report.html").as_uri())
    assert one(chromium, "header a").text == "1 warning"
    assert "floor not measured" in one(chromium, "#answer").text


@pytest.mark.parametrize("status", ["partial", "refused"])
def test_a_run_without_counted_repetitions_has_a_report_too(
    chromium: webdriver.Chrome, tmp_path: Path, status: str
) -> None:
    def refuse(document: dict[str, Any]) -> None:
        document["repetitions"] = []

    folder = synthetic.write(tmp_path / "b", Spec(repetitions=2, messages=5, status=status, edit=refuse))
    run = read(folder)
    derived.write(run, per_cell.summarise(run), folder)
    chromium.get((folder / "report.html").as_uri())
    assert one(chromium, ".status").text == status
    assert "no repetition counts" in one(chromium, "#answer").text
    assert [e for e in chromium.get_log("browser") if e["level"] == "SEVERE"] == []

# SPDX-License-Identifier: Apache-2.0
"""Text that a stranger put into a bundle is text: in the page, in figures, in tables, on the terminal."""

import shutil
from pathlib import Path

import pytest
import synthetic
from synthetic import CONTROL, CellSpec, Spec
from test_analysis_cli import files, run

MARKUP = "<!--<script>alert(1)</script><b>&amp;"
MATHS = "$\\\\frac{1}{$"
FAMILY = CONTROL | {
    "axes": [CONTROL["axes"][0] | {"words": MARKUP + " {}", "short": "a|b[bold red] {}"}, *CONTROL["axes"][1:]],
    "metrics": [CONTROL["metrics"][0] | {"words": MARKUP + MATHS}, *CONTROL["metrics"][1:]],
}
ESCAPES = "\x1b]0;owned\x07\x1b[31m\u202e\u2028two\nlines"


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cells = (CellSpec(arm=MARKUP), CellSpec(arm=MATHS), CellSpec(arm="a|b"), CellSpec(arm="[bold red]x[/nothing]"))
    spec = Spec(
        cells=cells,
        repetitions=3,
        messages=8,
        warmup=1,
        notice=ESCAPES,
        host={"kernel": MARKUP},
        resources=True,
        family=FAMILY,
    )
    folder = synthetic.write(tmp_path_factory.mktemp("hostile") / "bundle", spec)
    done = run("summarise", folder)
    assert (done.returncode, done.stderr) == (0, "")
    (folder.parent / "said").write_text(done.stdout)
    return folder


def test_markup_is_escaped_in_the_page_and_in_its_data(hostile: Path) -> None:
    page = (hostile / "report.html").read_text()
    assert "&lt;!--&lt;script&gt;alert(1)" in page
    assert "\\u003c!--\\u003cscript>alert(1)" in page
    for raw in ("<!--<script>", "<script>alert", "<b>&amp;"):
        assert raw not in page


def test_formulas_in_names_are_not_set_as_formulas(hostile: Path) -> None:
    """matplotlib ends in an error on half a fraction, so that a figure at all is one with the name as it is."""
    assert [name for name in files(hostile) if name.endswith(".pdf")]


def test_a_bar_does_not_end_a_column(hostile: Path) -> None:
    rows = [line for line in (hostile / "table.md").read_text().splitlines() if "a\\|b" in line]
    assert rows


def test_no_escape_sequence_reaches_the_terminal_or_a_file(hostile: Path) -> None:
    texts = [
        (hostile.parent / "said").read_text(),
        *((hostile / name).read_text() for name in ("report.html", "table.md")),
    ]
    for text in texts:
        assert r"\x1b]0;owned\x07" in text
        assert not {"\x1b", "\x07", "\u202e", "\u2028"} & set(text)


def test_an_error_shows_escapes_too(hostile: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(hostile, tmp_path / "b\x1b[31m"))
    (folder / "bundle.json").write_text("{")
    done = run("report", folder)
    assert done.returncode == 2
    assert r"b\x1b[31m" in done.stderr
    assert "\x1b" not in done.stderr

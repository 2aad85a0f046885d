# SPDX-License-Identifier: Apache-2.0
"""Checks that pass, fail, or cannot tell, for people and for their CI: a sentence, JSON, Markdown and JUnit's XML."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from analysis.judging.grid import Grid, markdown
from analysis.reading import files

PASS, FAIL, UNKNOWN = "pass", "fail", "cannot tell"
CODES = {PASS: 0, FAIL: 1, UNKNOWN: 3}
_KINDS = {
    (PASS, True): "system-out", (PASS, False): "system-out", (FAIL, True): "failure", (FAIL, False): "failure",
    (UNKNOWN, True): "error", (UNKNOWN, False): "skipped",
}  # fmt: skip
"""JUnit's element by verdict and whether it decides."""


@dataclass(frozen=True)
class Check:
    """One check: the cell, the statistic, the verdict, and the figures that it rests on, in words.

    A check that does not decide can fail the outcome, but does not keep it from passing where it cannot tell.
    """

    where: str
    what: str
    verdict: str
    why: str
    decides: bool = True


@dataclass(frozen=True)
class Outcome:
    """All checks of a run, their joint verdict in one sentence, and notes for the reader."""

    name: str
    sentence: str
    checks: tuple[Check, ...]
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> str:
        """The joint verdict of the checks that are `telling`."""
        return worst([check.verdict for check in telling(self.checks)])

    @property
    def code(self) -> int:
        """The exit code."""
        return CODES[self.verdict]

    @property
    def lines(self) -> list[str]:
        """The checks for a terminal, beneath the sentence, those that did not pass first; then the notes."""
        order = sorted(self.checks, key=lambda check: (FAIL, UNKNOWN, PASS).index(check.verdict))
        results = [f"{check.verdict}: {check.where}, {check.what}: {check.why}" for check in order]
        return [*results, *(f"note: {note}" for note in self.notes)]


def telling(checks: Sequence[Check]) -> list[Check]:
    """Return the checks that the verdict follows from: those that decide, and any that fails."""
    return [check for check in checks if check.decides or check.verdict == FAIL]


def worst(verdicts: Sequence[str]) -> str:
    """Return the worst of several verdicts; `UNKNOWN` where there are none."""
    if FAIL in verdicts:
        return FAIL
    return PASS if verdicts and set(verdicts) == {PASS} else UNKNOWN


def write(outcome: Outcome, folder: Path, stem: str) -> None:
    """Write STEM.json, STEM.md and STEM.xml into a bundle's folder, in place of earlier ones."""
    files.require_plain(folder)
    for suffix, text in (("json", as_json(outcome)), ("md", as_markdown(outcome)), ("xml", as_junit(outcome))):
        files.write_text(folder / f"{stem}.{suffix}", text)


def as_json(outcome: Outcome) -> str:
    """Return verdict, sentence, exit code and every check as JSON."""
    facts = {"name": outcome.name, "verdict": outcome.verdict, "exit_code": outcome.code, "sentence": outcome.sentence}
    document = facts | {"notes": outcome.notes, "checks": [asdict(check) for check in outcome.checks]}
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def as_markdown(outcome: Outcome) -> str:
    """Return the sentence and a table of checks, for a comment on a change."""
    rows = tuple((check.where, check.what, check.verdict, check.why) for check in outcome.checks)
    notes = "".join(f"- {note}\n" for note in outcome.notes)
    return "\n".join(
        [f"**{outcome.sentence}**\n", markdown(Grid(outcome.name, ("where", "what", "verdict", "why"), 4, rows)), notes]
    )


def as_junit(outcome: Outcome) -> str:
    """Return JUnit XML, a test case for each check: `failure` where it fails, `error` where it cannot tell.

    A check that cannot tell and does not decide is `skipped`.
    """
    kinds = [_KINDS[check.verdict, check.decides] for check in outcome.checks]
    suite = ET.Element(
        "testsuite", name=outcome.name, tests=str(len(kinds)), failures=str(kinds.count("failure")),
        errors=str(kinds.count("error")), skipped=str(kinds.count("skipped")),
    )  # fmt: skip
    for check, kind in zip(outcome.checks, kinds, strict=True):
        case = ET.SubElement(suite, "testcase", classname=check.where, name=check.what)
        if kind == "system-out":
            ET.SubElement(case, kind).text = check.why
        else:
            ET.SubElement(case, kind, message=f"{check.verdict}: {check.why}")
    ET.indent(suite)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(suite, encoding="unicode") + "\n"

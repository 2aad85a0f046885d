# SPDX-License-Identifier: Apache-2.0
"""A family is one folder: an echo over TCP goes through plan, stand, bundle, statistics and report untouched."""

from __future__ import annotations

import csv
import subprocess

import pytest
from copied import Checkout
from stand import Runner, facts_of, samples_of

QUICK = ("INTERVALS=5", "MESSAGES=40", "WARMUP=2", "REPETITIONS=2", "SEED=1")


def ran(runner: Runner, checkout: Checkout, *words: str) -> str:
    """Run a command in that checkout, which must end well; returns what it said."""
    code, said = runner.run(*words, PYTHONPATH=str(checkout.folder))
    assert code == 0, said
    return said


@pytest.mark.parametrize("placement", ["host", pytest.param("docker", marks=pytest.mark.engine)])
def test_it_is_measured_proved_sealed_and_verified(runner: Runner, checkout: Checkout, placement: str) -> None:
    said = ran(runner, checkout, "run", "echo", *QUICK, "SIZES=16,4096", f"PLACEMENT={placement}")
    assert f"scenario-echo (echo over TCP), placement {placement}, 2 cells × 2 repetitions × 40 cycles" in said
    facts = facts_of(runner.bundle)
    assert (facts["status"], facts["schema_version"], facts["family"]) == ("complete", 2, "echo")
    assert [(cell["interval_ms"], cell["size_bytes"]) for cell in facts["plan"]["cells"]] == [(5, 16), (5, 4096)]
    proofs = {(each["service"], each["knob"]) for each in facts["repetitions"][0]["proofs"]}
    assert {("server", "priority"), ("asker", "affinity"), ("asker", "finished")} <= proofs
    rows = [row for row in samples_of(runner.bundle) if not row["warmup"]]
    assert all(row["rtt_us"] == (row["received_ns"] - row["sent_ns"] + 500) // 1000 for row in rows if row["rtt_us"])
    assert checkout.analysis("verify", runner.bundle.resolve()).endswith(": verified\n")


def test_its_table_report_comparison_and_replay_speak_of_its_own_axes_and_metric(
    runner: Runner, checkout: Checkout
) -> None:
    ran(runner, checkout, "study", "echo-sizes", "MESSAGES=40", "REPETITIONS=3", "SEED=1", "PLACEMENT=host")
    bundle = runner.bundle.resolve()
    told = checkout.analysis("summarise", bundle)
    assert "16 B" in told
    assert "RTT" in told
    assert "What does the size of a message cost?" in told
    with (bundle / "summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["size_bytes"] for row in rows} == {"16", "16000"}
    assert {row["metric"] for row in rows} >= {"RTT", "RTT_intended", "lost", "missed"}
    checkout.analysis("report", bundle)
    page = (bundle / "report.html").read_text()
    assert "from a message to its echo" in page
    assert "QoS" not in page
    assert "median of RTT" in checkout.analysis("compare", f"{bundle}#small", f"{bundle}#large")
    said = ran(runner, checkout, "replay", str(bundle))
    assert "study-echo-sizes (replay of the run of" in said
    again = runner.bundle.resolve()
    assert again != bundle
    assert "claims were reproduced" in checkout.analysis("reproduced", bundle, again)


def test_its_conditions_are_set_and_disturbed_by_the_same_knobs_and_contentions(
    runner: Runner, checkout: Checkout
) -> None:
    swaps = (
        *QUICK[:-2],
        "REPETITIONS=3",
        "PLACEMENT=host",
        "PRIORITY=server=nice:5",
        "CONTENTION=none",
        "ASSERT=RTT.p50<1s",
    )
    ran(runner, checkout, "run", "echo-cpu", *swaps)
    (entry, *_) = facts_of(runner.bundle)["repetitions"]
    shown = {(each["service"], each["knob"]): each["observed"]["value"] for each in entry["proofs"]}
    assert shown["server", "priority"] == "SCHED_OTHER nice 5"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "echo", "QOS=1"), "testbed: QOS=1: it means nothing here; of echo are"),
        (("run", "1", "SIZES=16"), "testbed: SIZES=16: it means nothing here; of control are"),
        (("run", "echo", "SIZES=1"), "testbed: SIZES=1: whole numbers, parted by commas, from 8 to 60000 are allowed"),
        (("run", "echo", "PRIORITY=broker=nice:5"), "services are server, asker, stressor, flooder, each once"),
        (("run", "echo", "PRIORITY=stressor=nice:5"), "here run only server, asker"),
        (("run", "echo", "ASSERT=T.p50<1ms"), "testbed: ASSERT=T.p50<1ms: "),
        (("run", "nothing"), "allowed are 0, 1, 2, 3, 4, 5, 6, 7, 8, echo, echo-cpu"),
        (("path", "echo"), "the family echo has nothing to split"),
    ],
)
def test_what_means_nothing_to_a_family_is_refused(
    runner: Runner, checkout: Checkout, words: tuple[str, ...], told: str
) -> None:
    code, said = runner.run(*words, "PLACEMENT=host", PYTHONPATH=str(checkout.folder))
    if words[0] == "path":
        code, said = runner.run(*words, PYTHONPATH=str(checkout.folder))
    assert (code, said.count("\n")) == (2, 1), said
    assert told in said


def test_lists_have_it(checkout: Checkout, runner: Runner) -> None:
    assert "echo over TCP" in ran(runner, checkout, "scenarios")
    assert "echo-sizes" in ran(runner, checkout, "studies")
    assert "SIZES" in ran(runner, checkout, "variables")


def test_the_checkout_itself_has_no_word_of_it() -> None:
    found = subprocess.run(
        ["git", "grep", "-lE", "size_bytes|rtt_us", "--", "experiments", "analysis", "schema"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert found.stdout == ""

# SPDX-License-Identifier: Apache-2.0
"""`make bench`: the instrument beside its floor, in one run.

Raw TCP echoes and scenario 0 alternate over the same containers, so that a host that drifts drifts under both.
The aims are the project's own: quote the ratio, for absolute times belong to one host.
"""

from __future__ import annotations

import secrets
import statistics
import tempfile
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from experiments import families, plan
from experiments.noise import lateness
from experiments.observation import Rows, observe
from experiments.placements import Stand
from experiments.plan import Plan
from experiments.samples import samples
from experiments.variables import Settings

FAMILY = families.named("control")
SWAPS = ("PLACEMENT", "BROKER")
"""The variables that leave its schedule as it is."""
ROUNDS = 5
LONG_CYCLES = 10_000


def bench(stand: Stand, broker: str | None, placement: str, console: Console) -> None:
    """Measure and print; leaves no bundle."""
    run = secrets.token_hex(4)
    common = Settings(broker=broker, seed=1)
    quick = plan.of_scenario("0", replace(common, intervals=(20,)), run, placement)
    long = plan.of_scenario("0", replace(common, intervals=(10,), messages=LONG_CYCLES), run, placement)
    stand.check(quick.cells[0].conditions)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "logs").mkdir()
        try:
            stand.prepare(Path(folder), run)
            echoes, cycles = [], []
            for repetition in range(1, ROUNDS + 1):
                stand.up(quick.cells[0].conditions)
                echoes.append(statistics.median(stand.floor_us(interval_ms=20)))
                rows, _ = _repetition(stand, quick, repetition)
                cycles.append(statistics.median((row[3] - row[2]) / 1000 for row in rows if row[3]))
                console.print(f"round {repetition}: TCP echo p50 {echoes[-1]:.0f} µs, T p50 {cycles[-1]:.0f} µs")
            console.print(f"{LONG_CYCLES} cycles at 10 ms: {LONG_CYCLES / 100:.0f} s")
            rows, cpu_percent = _repetition(stand, long, ROUNDS + 1)
        finally:
            stand.down()
    console.print(_table(echoes, cycles, rows, long, cpu_percent))


def _repetition(stand: Stand, planned: Plan, repetition: int) -> tuple[Rows, float]:
    stand.up(planned.cells[0].conditions)
    stand.refresh()
    rows: Rows = []
    job = planned.job(planned.cells[0], repetition)
    done = observe(stand.channel(planned.family.driver), job, rows, lambda _t_us: None)
    return sorted(rows), 100 * done["cpu_s"] / done["elapsed_s"]


def _table(echoes: list[float], cycles: list[float], rows: Rows, long: Plan, cpu_percent: float) -> Table:
    echo_us, t_us = statistics.median(echoes), statistics.median(cycles)
    late = lateness(samples(long, long.cells[0], 1, rows))
    drift_us = _median_lateness_us(rows[-1000:]) - _median_lateness_us(rows[:1000])
    answered = sum(row[3] is not None for row in rows)
    table = Table("what", "measured", "aim", box=None)
    table.add_row("TCP echo, p50 of rounds (median)", f"{echo_us:.0f} µs", "")
    table.add_row("T at 20 ms, p50 of rounds (median)", f"{t_us:.0f} µs", "")
    table.add_row("T ÷ two echoes", f"{t_us / (2 * echo_us):.2f}", "at most 3")
    table.add_row(
        f"lateness p50 / p99 over {len(rows)} cycles", f"{late['p50']} / {late['p99']} µs", "p99 at most 200 µs"
    )
    table.add_row("drift, last 1000 cycles against the first", f"{drift_us:+.1f} µs", "none")
    table.add_row("CPU of the control loop at 10 ms", f"{cpu_percent:.1f} % of a core", "at most 5 %")
    table.add_row("answered", f"{answered} of {len(rows)}", "all")
    return table


def _median_lateness_us(rows: Rows) -> float:
    return statistics.median(float(row[2] - row[1]) / 1000 for row in rows if row[2] is not None)

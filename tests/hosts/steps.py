# SPDX-License-Identifier: Apache-2.0
"""What is done in a guest, step by step, and what each must show."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from hosts.errors import HostTestError
from hosts.guests import Guest

Held = Mapping[tuple[str, str], tuple[object, ...]]
"""By service and knob: one of these must have been read in the guest's kernel."""

SMALL = "INTERVALS=500 MESSAGES=10 WARMUP=2 REPETITIONS=1 TIMEOUT_MS=20000"
"""A run that an emulated machine, ten to twenty times slower, can keep up with."""

EVERY_KNOB = "broker=fifo:10+weight:4096,control-loop=nice:-10+quota:0.5,pi=cpus:0,board=rr:3"
"""`fifo`, `rr`, `nice`, `weight`, `quota` and `cpus` in one run, none on the same field of a service."""

WEIGHT_4096 = ("weight 157", "weight 303")
"""What runc up to 1.3, and later, makes of 4096 shares on cgroup v2."""

_BROKER_FIRST: Held = {("broker", "priority"): ("SCHED_FIFO 90",)}
_BOTH_FIRST: Held = {**_BROKER_FIRST, ("control-loop", "priority"): ("SCHED_FIFO 90",)}
_NONE_FIRST: Held = {(service, "priority"): ("SCHED_OTHER",) for service in ("broker", "control-loop")}

HELD_BY_EVERY_KNOB = {
    ("broker", "priority"): ("SCHED_FIFO 10",), ("broker", "weight"): WEIGHT_4096,
    ("control-loop", "priority"): ("SCHED_OTHER nice -10",), ("control-loop", "quota"): (0.5,),
    ("pi", "affinity"): ([0],), ("board", "priority"): ("SCHED_RR 3",),
}  # fmt: skip

_RUN = ".venv/bin/python -m experiments run "
"""What `make scenario-N` begins with."""

CARRIED = "/var/tmp/carried"
"""Where the guest finds the bundle that was made on the host."""


@dataclass(frozen=True)
class Step:
    """One command of a user of the guest, in the checkout in their home."""

    name: str
    command: str
    user: str = "tester"
    seconds: int = 30
    """What it takes in an emulated guest on a quiet host, for the plan said beforehand."""
    code: int = 0
    """The exit code that is right; anything but 0 is a refusal, to be given with its reason.

    Of a recipe that fails `make` says the code in its last line, and itself always ends with 2.
    """
    says: str = ""
    """A pattern that its words must match, e.g. a refusal's remedy."""
    leaves_bundle: bool = False
    """Its newest bundle is fetched, verified here, and its proofs held against what the kernel was seen to hold."""
    held: Held = field(default_factory=dict)

    @property
    def carries(self) -> bool:
        """Say whether it is about the bundle that was made on the host."""
        return CARRIED in self.command

    @property
    def refuses(self) -> bool:
        """Say whether to refuse is right here."""
        return self.code != 0

    def objection(self, code: int, said: str) -> str | None:
        """Say what is wrong with how it ended; None where it is as it must be."""
        if code != self.code:
            return f"exit code {code} instead of {self.code}"
        if not re.search(self.says, said):
            return f"did not say {self.says!r}"
        for complaint in ("Traceback (most recent call last)", "Exception ignored in"):
            if complaint in said:
                return f"a Python error shows: {_line_with_error(said, complaint)}"
        return None


def plan(guest: Guest, *, quick: bool, some: str = "") -> list[Step]:
    """Give the steps in their order; of the whole plan only those whose names match `some`, a regular expression."""
    whole = _whole() if guest.containers else _without_containers()
    try:
        chosen = [step for step in whole if re.search(some, step.name)]
    except re.error as error:
        raise HostTestError(f"STEPS={some}: no regular expression ({error})", exit_code=2) from None
    if not chosen:
        raise HostTestError(f"STEPS={some}: no such step; there are: {', '.join(s.name for s in whole)}", exit_code=2)
    return _quick() if quick and guest.containers else chosen


def _quick() -> list[Step]:
    return [_TESTS, _DOCTOR, _scenario("4", f"PRIORITY={EVERY_KNOB}", held=HELD_BY_EVERY_KNOB)]


def _without_containers() -> list[Step]:
    """Containers are refused with the reason and the remedy; plain processes run."""
    asked_for = Step(
        "scenario-1 PLACEMENT=docker",
        f"make scenario-1 {SMALL} PLACEMENT=docker",
        seconds=15,
        code=2,
        says="make engine",
    )
    doctor = Step(
        "doctor", "make doctor", seconds=15, code=2, says="make engine(.|\n)*Containers: not possible(.|\n)*Error 1"
    )
    return [_TESTS, doctor, asked_for, *_plain_processes(), *_a_bundle_from_elsewhere()[:1]]


def _plain_processes() -> list[Step]:
    swaps = "PLACEMENT=host DEVICE=model"
    return [
        _scenario("1", swaps),
        _scenario("5", swaps, "root", _BOTH_FIRST),
        Step(
            "scenario-5 PLACEMENT=host as a user", f"make scenario-5 {SMALL} {swaps}",
            seconds=40, code=2, says=r"(CAP_SYS_NICE|root)(.|\n)*Error 3",
        ),
    ]  # fmt: skip


def _a_bundle_from_elsewhere() -> list[Step]:
    return [
        Step("verify a bundle from elsewhere", f"make verify BUNDLE={CARRIED}", seconds=40),
        Step("replay a bundle from elsewhere", f"make replay BUNDLE={CARRIED}", seconds=150, leaves_bundle=True),
    ]


def _whole() -> list[Step]:
    with_knobs = f"PRIORITY={EVERY_KNOB}"
    return [
        _TESTS,
        _DOCTOR,
        Step("doctor as root", "make doctor", "root", 20, says="Containers: ready"),
        Step("doctor outside group docker", "make doctor", "outsider", 20, code=2, says=r"group docker(.|\n)*Error 1"),
        Step(
            "a virtual environment of one's own",
            "rm -rf /var/tmp/own && mkdir /var/tmp/own && git ls-files -z --cached --others --exclude-standard | "
            "xargs -0 cp --parents --target-directory=/var/tmp/own && cd /var/tmp/own && "
            "PIP_NO_INDEX=1 PIP_FIND_LINKS=/srv/wheels make doctor && rm -rf /var/tmp/own",
            seconds=400, says="Containers: ready",
        ),
        _scenario("1", held=_NONE_FIRST),
        _scenario("2", held=_NONE_FIRST),
        _scenario("4", held=_BROKER_FIRST),
        _scenario("5", held=_BOTH_FIRST),
        _scenario("1", with_knobs, held=HELD_BY_EVERY_KNOB),
        _scenario("2", with_knobs, held=HELD_BY_EVERY_KNOB),
        _scenario("4", with_knobs, held=HELD_BY_EVERY_KNOB),
        _scenario("5", with_knobs, held=HELD_BY_EVERY_KNOB),
        _scenario("4", "PRIORITY=published", held=_NONE_FIRST),
        _scenario("5", "PRIORITY=published", held=_NONE_FIRST),
        _scenario("2", "TCP=nagle", held={(name, "tcp"): ("nagle",) for name in ("broker", "control-loop", "pi")}),
        _scenario("1", "SECURITY=tls"),
        _scenario("5", "", "root", _BOTH_FIRST),
        Step("path-1", f"make path-1 {SMALL}", seconds=150, leaves_bundle=True),
        *_plain_processes(),
        Step("scenario-1 outside the group", f"make scenario-1 {SMALL}", "outsider", 10, code=2, says="group docker"),
        *_a_bundle_from_elsewhere(),
        Step(
            "clean after kill -9",
            f"(make scenario-1 {SMALL} MESSAGES=1000 & for i in $(seq 300); do docker ps --format '{{{{.Names}}}}' | "
            "grep -q -- -control-loop- && break; sleep 1; done; "
            f"pkill -KILL -u $USER -f '[-]m experiments run'; wait); make scenario-1 {SMALL} && exit 9; make clean",
            seconds=150, says=r"`make clean` removes it(.|\n)*removed testbed-",
        ),
        Step("nothing is left", "docker ps --all --quiet && make clean", seconds=15, says="nothing was left behind"),
    ]  # fmt: skip


def _scenario(number: str, swaps: str = "", user: str = "tester", held: Held | None = None) -> Step:
    as_root = " as root" if user == "root" else ""
    known = {f"PRIORITY={EVERY_KNOB}": "every knob"}
    name = " ".join(filter(None, (f"scenario-{number}", known.get(swaps, swaps)))) + as_root
    # The figures and pages that make goes on to draw take an emulated guest longer than the run: once is enough.
    whole = (number, swaps, user) == ("1", "", "tester")
    command = f"{'make scenario-' if whole else _RUN}{number} {SMALL} {swaps}".strip()
    return Step(name, command, user, 130, leaves_bundle=True, held=held or {})


def _line_with_error(said: str, complaint: str) -> str:
    """The line that names the error: the last of the traceback that follows."""
    lines = said[said.index(complaint) :].splitlines()
    return next((line for line in lines if re.match(r"\w+(\.\w+)*(Error|Exception|Interrupt)\b", line)), lines[0])


_TESTS = Step(
    "tests of observer and knobs",
    # Without those that run whole stands: the scenarios do.
    ".venv/bin/python -m pytest -q tests/observer tests/knobs -k 'not a_run_as_plain_processes'",
    seconds=60,
)
_DOCTOR = Step("doctor", "make doctor", seconds=15, says="Containers: ready")

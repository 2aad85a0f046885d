# SPDX-License-Identifier: Apache-2.0
"""`PRIORITY=…`: what each knob reads, and the line that refuses the rest before anything starts."""

from __future__ import annotations

import os
import re

import pytest

from experiments import knobs
from experiments.errors import BadInputError
from experiments.families.control.cells import settable

CPUS = sorted(os.sched_getaffinity(0))
ALL = ",".join(map(str, CPUS))

GOOD = [
    "none", "flags", "fifo:1", "fifo:99", "rr:1", "rr:99", "nice:-20", "nice:0", "nice:19", "weight:2", "weight:262144",
    "quota:0.01", "quota:0.5", "quota:1", f"quota:{os.cpu_count()}", f"cpus:{CPUS[0]}", f"cpus:{ALL}",
    f"cpus:{CPUS[0]}-{CPUS[0]}", "nodelay", "nagle", "password", "tls",
]  # fmt: skip
BAD_VALUES = {
    "fifo": ("from 1 to 99", ["", ":", "0", "100", "-1", "1.5", "x", "٣", "9 0"]),
    "rr": ("from 1 to 99", ["", "0", "100"]),
    "nice": ("from -20 to 19", ["", "-21", "20", "--1", "0.5"]),
    "weight": ("from 2 to 262144", ["", "0", "1", "262145", "1e3", "-5"]),
    "quota": ("from 0.01 to", ["", "0", "0.001", "-1", "nan", "inf", "1e0", "½", "0,5", "99999"]),
    "cpus": ("CPUs of this host", ["", "x", "-1", "0-", ",0", "99999", "1-0", "0-99999999999", "٠"]),
    "none": ("takes no value", ["1"]),
    "flags": ("fifo:90 really applies", ["90"]),
    "nodelay": ("takes no value", ["1"]),
    "nagle": ("takes no value", ["1"]),
    "password": ("takes no value", ["secret"]),
    "tls": ("takes no value", ["1.2"]),
}
BAD = [(f"{kind}:{value}", allowed) for kind, (allowed, values) in BAD_VALUES.items() for value in values]
BAD += [(kind, "allowed are cpus, fifo, flags") for kind in ("turbo", "", "FIFO:90", " fifo:90")]


def refused(text: str) -> str:
    """The one line that refuses it."""
    with pytest.raises(BadInputError) as caught:
        knobs.parse(text, settable())
    line = str(caught.value)
    assert caught.value.exit_code == 2
    assert re.match("(PRIORITY|TCP|SECURITY)=", line)
    assert "\n" not in line
    return line


@pytest.mark.parametrize("text", GOOD)
def test_a_knob_is_read_and_written_as_the_user_wrote_it(text: str) -> None:
    assert str(knobs.one(text)) == text


@pytest.mark.parametrize(("text", "allowed"), BAD)
def test_a_bad_value_is_refused_in_a_line_that_names_it_and_what_is_allowed(text: str, allowed: str) -> None:
    line = refused(f"broker={text}")
    assert text.rstrip(":") in line.partition(": ")[0]
    assert allowed in line


def test_every_kind_was_tried_both_ways() -> None:
    kinds = set(knobs.REGISTRY.all())
    assert {text.partition(":")[0] for text in GOOD} == kinds
    assert set(BAD_VALUES) == kinds


def test_services_and_knobs_are_told_apart_from_the_commas_of_a_list_of_cpus() -> None:
    found = knobs.parse(f"broker=cpus:{ALL},control-loop=nice:5+cpus:{ALL},pi=none", settable())
    assert {service: knobs.record(asked) for service, asked in found.items()} == {
        "broker": f"cpus:{ALL}", "control-loop": f"nice:5+cpus:{ALL}", "pi": "none",
    }  # fmt: skip


def test_a_service_takes_one_knob_of_each_field() -> None:
    (asked,) = knobs.parse(f"broker=fifo:90+weight:2048+cpus:{CPUS[0]}+quota:0.5", settable()).values()
    assert [knob.field for knob in asked] == ["priority", "weight", "affinity", "quota"]


@pytest.mark.parametrize(
    "twice", ["fifo:90+nice:5", "none+flags", "weight:2+weight:3", "fifo:1+rr:1", "quota:1+quota:1"]
)
def test_the_same_field_twice_is_refused(twice: str) -> None:
    assert f"broker={twice}: these set the same thing twice" in refused(f"broker={twice}")


@pytest.mark.parametrize(
    "text", ["toaster=fifo:1", "fifo:90", "=fifo:90", "broker", "broker=rr:1,broker=rr:1", "Pi=none"]
)
def test_a_service_that_does_not_exist_or_comes_twice_is_refused_with_those_there_are(text: str) -> None:
    assert f"services are {', '.join(settable())}, each once" in refused(text)


@pytest.mark.parametrize("option", ["nodelay", "nagle"])
def test_the_tcp_option_is_not_a_services_own_and_says_where_it_belongs(option: str) -> None:
    assert f"that is TCP={option}" in refused(f"broker={option}")

# SPDX-License-Identifier: Apache-2.0
"""The wire format: what is encoded comes back, and whatever else arrives is refused."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.wire import OUTCOMES, Answer, Request, WireError, answer_topic, request_topic

runs = st.text("0123456789abcdef", min_size=8, max_size=8)
naturals = st.integers(0, 10**12 - 1)
requests = st.builds(Request, runs, naturals, naturals, st.integers(0, 2))
answers = st.builds(
    Answer, runs, naturals, naturals, naturals, st.sampled_from(OUTCOMES),
    st.from_regex(r"[a-z][a-z0-9-]*\Z", fullmatch=True), st.integers(-(10**12) + 1, 10**12 - 1),
    st.integers(0, 2), naturals,
)  # fmt: skip
payloads = st.one_of(requests, answers).map(lambda message: message.encode())


@given(requests)
def test_a_request_comes_back_as_it_was(request: Request) -> None:
    assert Request.decode(request.encode()) == request


@given(answers)
def test_an_answer_comes_back_as_it_was(answer: Answer) -> None:
    assert Answer.decode(answer.encode()) == answer


@given(st.one_of(st.binary(), st.text().map(str.encode)))
def test_garbage_raises_wire_error_and_nothing_else(payload: bytes) -> None:
    for kind in (Request, Answer):
        with pytest.raises(WireError):
            kind.decode(payload)


@given(payloads, st.data())
def test_a_damaged_payload_is_refused_or_is_itself_a_valid_one(payload: bytes, data: st.DataObject) -> None:
    position = data.draw(st.integers(0, len(payload)))
    cut = data.draw(st.integers(position, len(payload)))
    damaged = payload[:position] + data.draw(st.binary(max_size=4)) + payload[cut:]
    for kind in (Request, Answer):
        with contextlib.suppress(WireError):
            # One meaning, one spelling: nothing is read that would not be written the same.
            assert kind.decode(damaged).encode() == damaged


@pytest.mark.parametrize(
    "payload",
    [
        b"", b"1", b"2 0123abcd 1 0 0", b"1 0123abcd 1 0", b"1 0123abcd 1 0 0 0", b"1 0123abcd 1 0 3",
        b"1 0123ABCD 1 0 0", b"1 0123abcd 01 0 0", b"1 0123abcd +1 0 0", b"1 0123abcd 1 -1 0", b"1 0123abcd 1 0 0\n",
        b"1  0123abcd 1 0 0", b"1 0123abcd 1 0 0 ", b"1 0123abcd 1_0 0 0", "1 0123abcd ١ 0 0".encode(),
    ],
)  # fmt: skip
def test_a_request_that_is_nearly_right_is_refused(payload: bytes) -> None:
    with pytest.raises(WireError):
        Request.decode(payload)


@pytest.mark.parametrize(
    ("position", "value"),
    [(4, b"1.5"), (5, b"OK"), (5, b"fine"), (6, b"Simavr"), (6, b"-"), (7, b"-0"), (7, b"warm"), (8, b"3"), (9, b"-1")],
)
def test_an_answer_with_one_wrong_field_is_refused(position: int, value: bytes) -> None:
    fields = Answer("0123abcd", 1, 2, 4400, "ok", "simavr", 2345, 0, 0).encode().split(b" ")
    fields[position] = value
    with pytest.raises(WireError):
        Answer.decode(b" ".join(fields))


def test_topics_are_the_runs_own() -> None:
    assert (request_topic("0123abcd", 1), answer_topic("0123abcd")) == (
        "testbed/0123abcd/request/1",
        "testbed/0123abcd/answer",
    )

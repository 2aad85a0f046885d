# SPDX-License-Identifier: Apache-2.0
"""The sketch's C does what firmware/protocol.py says, byte for byte."""

from __future__ import annotations

import ctypes
import math
import shutil
from collections.abc import Callable

import pytest
from boards import BUILD, make, unavailable
from hypothesis import example, given
from hypothesis import strategies as st

from firmware.protocol import ErrorCode, Reply, answer, decode_reply, encode_request

ANSWER_MAX_LENGTH = 14


class Line(ctypes.Structure):
    _fields_ = (("text", ctypes.c_char * 7), ("length", ctypes.c_uint8))


Measure = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int16))
Say = Callable[..., bytes]


@pytest.fixture(scope="module", autouse=True)
def compiler() -> None:
    if not shutil.which("cc") or not shutil.which("make"):
        unavailable("no C compiler (cc) or no make: the board's C is untested here")


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    make("build/libprotocol.so")
    library = ctypes.CDLL(str(BUILD / "libprotocol.so"))
    library.line_collect.restype = ctypes.c_bool
    library.line_collect.argtypes = [ctypes.POINTER(Line), ctypes.c_char]
    library.line_answer.restype = ctypes.c_uint8
    library.thermistor_centi_degrees.argtypes = [ctypes.c_uint16, ctypes.POINTER(ctypes.c_int16)]
    return library


@pytest.fixture(scope="module")
def say(library: ctypes.CDLL) -> Say:
    """Feed a stream to the C, as loop() does, and return all that it answers."""

    def say(stream: bytes, temperature_centi: int, sensor: int = 0) -> bytes:
        def read_sensor(result: ctypes._Pointer[ctypes.c_int16]) -> int:
            result[0] = temperature_centi
            return sensor

        line, measure = Line(), Measure(read_sensor)
        said = b""
        for byte in stream:
            if library.line_collect(line, byte):
                text = ctypes.create_string_buffer(ANSWER_MAX_LENGTH)
                length = library.line_answer(ctypes.byref(line), measure, text)
                said += text.raw[:length]
        return said

    return say


def test_the_boards_c_passes_its_own_tests_under_sanitizers() -> None:
    make("test")


requests = st.integers(0, 0xFFFF).map(encode_request)
# One character wrong, preferably by one: the neighbours of the hexadecimal digits in ASCII.
almost_requests = st.builds(
    lambda request, at, wrong: request[:at] + bytes([wrong]) + request[at + 1 :],
    requests,
    st.integers(0, 7),
    st.one_of(st.sampled_from(b"/:@G`g"), st.integers(0, 255)),
)
streams = st.lists(st.one_of(requests, almost_requests, st.binary(max_size=12)), max_size=6).map(b"".join)


@given(streams, st.integers(-32768, 32767))
@example(b"?000140\n", -32768)
@example(b"\n\n?FFFF82\n?0000", 0)
def test_c_and_python_give_the_same_answers_to_any_stream(say: Say, stream: bytes, temperature: int) -> None:
    *lines, _unfinished = stream.split(b"\n")
    assert say(stream, temperature) == b"".join(answer(line, temperature) for line in lines)


@pytest.mark.parametrize("request_id", [0x0000, 0x0001, 0x7FFF, 0xFFFF])
@pytest.mark.parametrize("fault", [ErrorCode.SENSOR_OPEN, ErrorCode.SENSOR_SHORT])
def test_a_broken_sensor_is_reported_under_the_requests_id(say: Say, request_id: int, fault: ErrorCode) -> None:
    assert decode_reply(say(encode_request(request_id), 0, fault)) == Reply(request_id, None, fault)


def celsius_at(adc: float) -> float:
    """Datasheet's beta equation: 10 kOhm at 25 degrees, B = 3380 K, over 10 kOhm."""
    return 1 / (1 / 298.15 + math.log(adc / (1023 - adc)) / 3380) - 273.15


@given(st.floats(-55, 200))
def test_a_temperature_survives_the_thermistor_to_within_half_an_adc_count(
    library: ctypes.CDLL, celsius: float
) -> None:
    ratio = math.exp(3380 * (1 / (celsius + 273.15) - 1 / 298.15))
    adc = round(1023 * ratio / (1 + ratio))
    centi = ctypes.c_int16()
    assert library.thermistor_centi_degrees(adc, centi) == 0
    half_a_count = max(abs(celsius_at(adc + side) - celsius_at(adc)) for side in (-0.5, 0.5))
    rounding = 0.02  # hundredths of a degree, and single precision
    assert abs(centi.value / 100 - celsius) <= half_a_count + rounding

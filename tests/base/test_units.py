"""Quantities: text with a unit to SI floats and back."""

import math
from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from dpsim.base.config import Config
from dpsim.base.errors import DpsimError
from dpsim.base.units import (
    DATA,
    DIMENSIONS,
    OPERATIONS,
    POWER,
    RATE,
    SPEED,
    TIME,
    Bytes,
    BytesPerSecond,
    PositiveBytes,
    PositiveSeconds,
    Seconds,
    exact,
    human,
    parse,
    size,
    to_si,
)


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("25 Gbit/s", RATE, 3.125e9),
        ("25Gb/s", RATE, 3.125e9),
        ("25 GB/s", RATE, 25e9),
        ("25 Gbps", RATE, 3.125e9),
        ("25 GBps", RATE, 25e9),
        ("1 MB/ms", RATE, 1e9),
        ("60 GB/min", RATE, 1e9),
        ("1e3 B/s", RATE, 1000.0),
        ("1.5 us", TIME, 1.5e-6),
        ("1.5 µs", TIME, 1.5e-6),
        ("500 ns", TIME, 500e-9),
        ("  7   s ", TIME, 7.0),
        (".5 s", TIME, 0.5),
        ("2 min", TIME, 120.0),
        ("1 h", TIME, 3600.0),
        ("-1 s", TIME, -1.0),
        ("100 MB", DATA, 100_000_000.0),
        ("100 MiB", DATA, 104_857_600.0),
        ("1 KiB", DATA, 1024.0),
        ("1 TiB", DATA, 1024.0**4),
        ("2 PB", DATA, 2e15),
        ("8 b", DATA, 1.0),
        ("8 bit", DATA, 1.0),
        ("1 Mbit", DATA, 125_000.0),
        ("4 GFLOP", OPERATIONS, 4e9),
        ("4 Gflop", OPERATIONS, 4e9),
        ("15.7 TFLOP/s", SPEED, 15.7e12),
        ("15.7 TFLOPS", SPEED, 15.7e12),
        ("0.3 kW", POWER, 300.0),
        ("10 J/s", POWER, 10.0),
        ("10 joules/second", POWER, 10.0),
        ("3 kilobytes", DATA, 3000.0),
        ("2 minutes", TIME, 120.0),
    ],
)
def test_text_with_a_unit_is_an_si_float(text, dimension, value):
    assert parse(text, dimension) == value


@pytest.mark.parametrize(
    ("text", "dimension", "ending"),
    [
        ("25 Gb", RATE, "but got '25 Gb', which is an amount of data"),
        ("1 GB/s", DATA, "but got '1 GB/s', which is a data rate"),
        ("25 Gbps", DATA, "but got '25 Gbps', which is a data rate"),
        ("989 TFLOPs", SPEED, "but got '989 TFLOPs', which is a number of operations"),
        ("100 W", SPEED, "but got '100 W', which is a power"),
        ("10 ms", DATA, "but got '10 ms', which is a time"),
        ("25", RATE, "but got '25', which has no unit"),
        ("inf", TIME, "but got 'inf', which has no unit"),
        ("3 parsec", TIME, "but got '3 parsec', whose unit 'parsec' is not known"),
        ("25 Gbaud", RATE, "but got '25 Gbaud', whose unit 'Gbaud' is not known"),
        ("25 Gibs", RATE, "but got '25 Gibs', whose unit 'Gibs' is not known"),
        ("25 Gb/parsec", RATE, "but got '25 Gb/parsec', whose unit 'Gb/parsec' is not known"),
        ("1 W/B", RATE, "but got '1 W/B'"),
        ("1 KB", DATA, "but got '1 KB', whose unit 'KB' is not known"),
        ("1 S", TIME, "but got '1 S', whose unit 'S' is not known"),
        ("", TIME, "but got ''"),
        ("fast", RATE, "but got 'fast'"),
        ("nan s", TIME, "but got 'nan s'"),
        ("1,5 s", TIME, "but got '1,5 s'"),
        ("1 + 1 s", TIME, "but got '1 + 1 s'"),
        ("1 s**2", TIME, "but got '1 s**2'"),
        ("1 B/s/s", RATE, "but got '1 B/s/s'"),
        ("x" * 1000, TIME, f"but got '{'x' * 64}'"),
    ],
)
def test_wrong_text_is_an_error_that_says_what_it_must_be(text, dimension, ending):
    with pytest.raises(DpsimError) as error:
        parse(text, dimension)
    assert (
        str(error.value)
        == f"must be {dimension.name} with its unit, such as {dimension.example!r}, {ending}"
    )


def test_what_is_too_large_for_a_float_is_an_error():
    with pytest.raises(DpsimError, match=r"^must be finite, but got '1e999 s'$"):
        parse("1e999 s", TIME)


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda dimension: dimension.symbol)
def test_the_example_of_a_dimension_can_be_read(dimension):
    assert parse(dimension.example, dimension) > 0


@pytest.mark.parametrize("dimension", DIMENSIONS, ids=lambda dimension: dimension.symbol)
@given(value=st.floats(allow_nan=False, allow_infinity=False))
@example(value=0.1)
@example(value=5e-324)
@example(value=-1.7976931348623157e308)
def test_exact_reads_back_to_the_very_same_float(dimension, value):
    assert parse(exact(value, dimension), dimension) == value


@given(
    whole=st.integers(-(10**6), 10**6),
    prefix=st.sampled_from(["n", "u", "m", "", "k", "M", "G", "T"]),
)
def test_prefixes_give_the_nearest_float(whole, prefix):
    factor = (
        Fraction(10) ** {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12}[prefix]
    )
    assert parse(f"{whole} {prefix}s", TIME) == float(whole * factor)


@pytest.mark.parametrize(
    ("value", "dimension", "text"),
    [
        (0.0123, TIME, "12.3 ms"),
        (-0.0123, TIME, "-12.3 ms"),
        (1.5e-6, TIME, "1.5 us"),
        (100e-9, TIME, "100 ns"),
        (1e-12, TIME, "0.001 ns"),
        (1.0, TIME, "1 s"),
        (2500.0, TIME, "41.67 min"),
        (0.0, DATA, "0 B"),
        (0.5, DATA, "0.5 B"),
        (999.0, DATA, "999 B"),
        (104_857_600.0, DATA, "104.9 MB"),
        (3.125e9, RATE, "3.125 GB/s"),
        (15.7e12, SPEED, "15.7 TFLOP/s"),
        (4.1e9, OPERATIONS, "4.1 GFLOP"),
        (2e18, OPERATIONS, "2000 PFLOP"),
        (300.0, POWER, "300 W"),
        (math.inf, TIME, "inf s"),
        (999.0, TIME, "999 s"),
        (4470.0, TIME, "74.5 min"),
        (25_920.0, TIME, "7.2 h"),
        (5_616_000.0, TIME, "65 days"),
        (216_000.0, TIME, "2.5 days"),
        (50_000 * 3600.0, TIME, "50000 h"),
        (50_001 * 86_400.0, TIME, "50001 days"),
        (5_625_060.0, TIME, "65.1 days"),
    ],
)
def test_people_read_a_decimal_prefix(value, dimension, text):
    assert human(value, dimension) == text


@given(value=st.floats(1e-12, 1e20), digits=st.integers(3, 12))
@pytest.mark.parametrize("dimension", [TIME, DATA, SPEED], ids=lambda dimension: dimension.symbol)
def test_what_people_read_is_right_to_its_digits(dimension, value, digits):
    assert parse(human(value, dimension, digits), dimension) == pytest.approx(
        value, rel=0.5000001 * 10 ** (1 - digits)
    )


@pytest.mark.parametrize("value", [0, 0.0])
def test_a_zero_needs_no_unit(value):
    assert to_si(value, TIME) == 0.0


@pytest.mark.parametrize("value", [5, 2.5, True, False, None, [], {"s": 1}])
def test_any_other_value_without_a_unit_is_an_error(value):
    with pytest.raises(DpsimError, match=r"which has no unit$"):
        to_si(value, TIME)


class Fields(Config):
    """One field of each sort that says what is allowed."""

    delay: Seconds = 0.0
    period: PositiveSeconds = 1.0
    message: Bytes = 0.0
    bucket: PositiveBytes = 1.0
    rate: BytesPerSecond = 1.0


@pytest.mark.parametrize(
    ("field", "text", "rule"),
    [
        ("delay", "-1 s", "greater than or equal to 0"),
        ("period", "0 s", "greater than 0"),
        ("message", "-1 B", "greater than or equal to 0"),
        ("bucket", "0 B", "greater than 0"),
        ("rate", "0 B/s", "greater than 0"),
        ("rate", "25 Gb", "which is an amount of data"),
        ("bucket", "25", "which has no unit"),
    ],
)
def test_a_field_refuses_what_breaks_its_rule(field, text, rule):
    with pytest.raises(ValidationError, match=rule):
        Fields.model_validate({field: text})


def test_fields_hold_si_floats_and_are_written_as_text_that_reads_back():
    fields = Fields.model_validate({"delay": "1.5 us", "bucket": "25 MiB", "rate": "25 Gbit/s"})
    assert (fields.delay, fields.bucket, fields.rate) == (1.5e-6, 26_214_400.0, 3.125e9)
    written = fields.model_dump(mode="json")
    assert written == {
        "delay": "1.5e-06 s",
        "period": "1.0 s",
        "message": "0.0 B",
        "bucket": "26214400.0 B",
        "rate": "3125000000.0 B/s",
    }
    assert Fields.model_validate(written) == fields


@pytest.mark.parametrize("text", ["1e300 B/s", "1e-9 B/s", "1e19 B/s"])
def test_a_field_takes_no_rate_that_no_link_could_have(text):
    with pytest.raises(
        ValidationError, match=r"must be 0, or from 0\.001 B/s to 1e\+18 B/s, but got "
    ):
        Fields.model_validate({"delay": 0, "bucket": "1 B", "rate": text})


def test_a_bit_a_second_and_a_petabyte_a_second_are_rates():
    assert [
        Fields.model_validate({"delay": 0, "bucket": "1 B", "rate": text}).rate
        for text in ("1 bit/s", "1 PB/s")
    ] == [
        0.125,
        1e15,
    ]


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0.214, 2, "210 ms"), (0.9996, 3, "1000 ms"), (0.0214, 2, "21 ms")],
)
def test_few_digits_make_no_exponent(value, digits, text):
    assert human(value, TIME, digits) == text


@pytest.mark.parametrize(
    ("nbytes", "text"),
    [
        (2**20, "1 MiB"),
        (1536 * 2**20, "1,536 MiB"),
        (1024, "1 KiB"),
        (80e6, "80 MB"),
        (1e9, "1 GB"),
        (1000, "1 kB"),
        (0, "0 B"),
    ],
)
def test_a_size_is_written_as_it_was_meant(nbytes, text):
    assert size(nbytes) == text

"""How far a time may be off, in as few columns as can be."""

import pytest

from dpsim.base.uncertainty import PredictionInterval
from dpsim.report.text.model_error import WITHIN, extrapolation_notes, within, within_cell


def interval(*extrapolated):
    return PredictionInterval(0.155, 0.3, 0.9, "", extrapolated)


@pytest.mark.parametrize(
    ("low", "high", "message"),
    [
        (0.155, 0.3, "155 to 300 ms"),
        (0.354, 1.47, "354 ms to 1.47 s"),
        (18.2e-6, 41.9e-6, "18.2 to 41.9 us"),
        (0.0, 0.0, "0 to 0 s"),
        # A unit that the other's name ends with is not the other's.
        (0.5e-9, 2.0, "0.5 ns to 2 s"),
    ],
)
def test_a_common_unit_is_written_once(low, high, message):
    assert within(low, high) == message


def test_what_has_no_interval_has_an_empty_cell():
    assert (WITHIN, within_cell(interval()), within_cell(None)) == (
        "90% within",
        "155 to 300 ms",
        "",
    )


def test_a_common_extrapolation_is_noted_once():
    found = extrapolation_notes([interval("a", "b"), None, interval("b")])
    assert found == ["extrapolated: a", "extrapolated: b"]

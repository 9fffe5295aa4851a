"""Predicted against measured: points, the line where they are equal, and the band around it."""

import pytest

from dpsim.report.figures.measured_figure import Pair, measured_figure

PAIRS = [Pair("a", 1.0, 1.1), Pair("b", 10.0, 9.0)]


def test_points_are_the_pairs_and_say_their_error():
    figure = measured_figure({"mine": PAIRS}, "step time", "s", "A title")
    (points,) = [trace for trace in figure.data if trace.mode == "markers"]
    assert (list(points.x), list(points.y)) == ([1.0, 10.0], [1.1, 9.0])
    assert list(points.text) == ["a<br>+10.0%", "b<br>-10.0%"]
    assert points.name == "mine (2)"


def test_what_lies_outside_its_interval_is_marked_and_intervals_are_drawn():
    pairs = [
        Pair("in", 1.0, 1.5, 0.9, 2.0),
        Pair("out", 1.0, 1.1, 1.05, 1.2),
        Pair("off", 1.0, 2.0),
    ]
    figure = measured_figure({"mine": pairs}, "step time", "s", "A title")
    inside, missed, far = [trace for trace in figure.data if trace.mode == "markers"]
    assert (inside.name, missed.name) == ("mine (3)", "outside its interval (1)")
    assert (list(inside.y), list(missed.y)) == ([1.5], [1.1])
    # What has no interval cannot be outside of it.
    assert (far.name, list(far.y)) == (
        "over a factor of 1.25 off, without an interval (1)",
        [2.0],
    )
    assert list(inside.error_y.array) == pytest.approx([0.5])
    assert list(inside.error_y.arrayminus) == pytest.approx([0.6])
    assert list(missed.error_y.array) == pytest.approx([0.1])
    assert inside.text[0].endswith("interval 0.9 to 2 s")


def test_the_band_is_within_a_quarter_of_the_line():
    figure = measured_figure({"mine": PAIRS}, "step time", "s", "A title")
    band, line = figure.data[:2]
    assert list(line.x) == list(line.y) == [1 / 1.3, 13.0]
    assert list(band.x) == [*line.x, *reversed(line.x)]
    assert [y / x for x, y in zip(band.x, band.y, strict=True)] == pytest.approx(
        [1.25, 1.25, 0.8, 0.8]
    )


@pytest.mark.parametrize(
    ("unit", "kind", "label"),
    [("s", "log", "measured step time"), ("", None, "measured step time")],
)
def test_times_have_logarithmic_axes_with_their_unit_and_shares_linear_ones(unit, kind, label):
    layout = measured_figure({"mine": PAIRS}, "step time", unit, "A title").layout
    assert (layout.xaxis.type, layout.yaxis.type) == (kind, kind)
    assert layout.xaxis.title.text == label
    assert layout.title.text == "A title"


def test_groups_differ_in_colour_and_symbol_and_none_is_no_error():
    figure = measured_figure({"one": PAIRS, "two": PAIRS}, "step time", "s", "A title")
    markers = [trace.marker for trace in figure.data if trace.mode == "markers"]
    assert (
        len({marker.color for marker in markers}) == len({marker.symbol for marker in markers}) == 2
    )
    assert len(measured_figure({}, "step time", "s", "A title").data) == 0

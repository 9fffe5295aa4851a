"""A sweep's columns against each other, and the front of those that no other beats."""

import pytest

from dpsim.report.figures.columns_figure import axis_title, columns_figure

ROWS = [
    {"point": 0, "name": "a", "nodes": 1, "step_time_s": 3.0, "kind": "ring"},
    {"point": 1, "name": "b", "nodes": 2, "step_time_s": 2.0, "kind": "tree"},
    {"point": 2, "name": "c", "nodes": 3, "step_time_s": 2.5, "kind": "ring"},
    {"point": 3, "name": "d", "nodes": 4, "step_time_s": None, "kind": "tree"},
]


def test_rows_without_a_value_are_left_out_and_counted():
    figure = columns_figure(ROWS, "nodes", "step_time_s")
    assert list(figure.data[0].x) == [1, 2, 3]
    assert "3 points; 1 row without one of the two" in figure.layout.title.subtitle.text
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == (
        "nodes",
        "step time (s)",
    )


def test_hovering_shows_values_in_the_units_of_the_axes():
    rows = [{**ROWS[0], "step_time_s": 0.25}, {**ROWS[1], "step_time_s": 0.2}]
    (points,) = columns_figure(rows, "nodes", "step_time_s").data
    assert list(points.y) == [250.0, 200.0]
    assert "<br>nodes %{x}<br>step time (ms) %{y}<" in points.hovertemplate
    # The same column on both axes is scaled once.
    (points,) = columns_figure(rows, "step_time_s", "step_time_s").data
    assert list(points.x) == list(points.y) == [250.0, 200.0]


def test_values_differ_in_colour_and_symbol():
    figure = columns_figure(ROWS, "nodes", "step_time_s", "kind")
    assert [trace.name for trace in figure.data] == ["ring", "tree"]
    assert len({trace.marker.symbol for trace in figure.data}) == 2


def test_the_front_is_a_line_and_only_of_numbers():
    figure = columns_figure(ROWS, "nodes", "step_time_s", aims=("least", "least"))
    assert (list(figure.data[-1].x), list(figure.data[-1].y)) == ([1, 2], [3.0, 2.0])
    assert "least nodes, least step_time_s" in figure.layout.title.subtitle.text
    figure = columns_figure(ROWS, "nodes", "step_time_s", aims=("most", "least"))
    assert (list(figure.data[-1].x), list(figure.data[-1].y)) == ([3, 2], [2.5, 2.0])
    assert [
        trace.name for trace in columns_figure(ROWS, "kind", "nodes", aims=("least", "least")).data
    ] == ["points"]


def test_the_front_is_marked_by_point_with_units_that_suit():
    rows = [
        {"point": 4, "total_price": 9.0, "total_time_s": 36_000.0, "currency": "EUR"},
        {"point": 7, "total_price": 5.0, "total_time_s": 72_000.0, "currency": "EUR"},
        {"point": 9, "total_price": 9.0, "total_time_s": 90_000.0, "currency": "EUR"},
    ]
    figure = columns_figure(rows, "total_price", "total_time_s", aims=("least", "least"))
    points, front = figure.data
    assert list(points.y) == [10, 20, 25]
    assert list(front.text) == ["7", "4"]
    assert "text" in front.mode
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == (
        "total price (EUR)",
        "total time (h)",
    )
    assert front.marker.size > points.marker.size
    assert rows[0]["total_time_s"] == 36_000


@pytest.mark.parametrize(
    ("column", "title"),
    [
        ("step_time_s", "step time (s)"),
        ("throughput_samples_per_s", "throughput (samples/s)"),
        ("bytes_sent_total", "bytes sent total (B)"),
    ],
)
def test_axes_have_units(column, title):
    assert axis_title(column) == title

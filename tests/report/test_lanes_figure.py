"""Pictures of strategies: bars are the intervals, gaps are waiting, the window has its parts."""

import pytest

from dpsim.engine import Interval
from dpsim.report.figures.lanes_figure import lanes_figure, window_figure
from dpsim.studies.lanes import Lane, Window


def bars(figure, name):
    return [
        (worker, base, base + length)
        for trace in figure.data
        if trace.name == name
        for worker, base, length in zip(trace.y, trace.base, trace.x, strict=True)
    ]


def test_touching_parts_are_one_bar_and_a_gap_is_waiting():
    steps = (
        (
            Interval(0, "compute", "forward", 0.0, 1.0),
            Interval(0, "compute", "backward", 1.0, 2.0),
            Interval(0, "compute", "backward", 2.0, 3.0),
            Interval(0, "communication", "bucket0: all-reduce", 2.0, 4.0),
        ),
        (Interval(0, "compute", "forward", 5.0, 6.0),),
    )
    figure = lanes_figure([Lane("one", steps)], "title")
    assert bars(figure, "backward") == [(0, pytest.approx(1), pytest.approx(3))]
    assert bars(figure, "waiting") == [(0, pytest.approx(3), pytest.approx(5))]
    assert bars(figure, "sends and receives") == [(0, pytest.approx(2), pytest.approx(4))]
    forward = next(trace for trace in figure.data if trace.name == "forward")
    assert list(forward.text) == ["1", "2"]
    assert forward.constraintext == "none"  # plotly would shrink the numbers to the bars' height


def test_lanes_share_one_axis_and_one_legend():
    step = ((Interval(0, "compute", "forward", 0.0, 1.0),),)
    later = ((Interval(0, "compute", "forward", 0.0, 3.0),),)
    figure = lanes_figure([Lane("one", step), Lane("other", later)], "title")
    assert [each.text for each in figure.layout.annotations] == ["one", "other"]
    assert [trace.showlegend for trace in figure.data] == [True, False]
    assert figure.layout.xaxis.range == figure.layout.xaxis2.range


def test_each_part_of_the_window_has_its_squares():
    window = Window(0, 2, 1, (("own", "own"), ("guaranteed", "in the window"), ("guaranteed",)))
    figure = window_figure(window)
    squares = {trace.name.partition(":")[0]: len(trace.x) for trace in figure.data}
    assert squares["its own"] == 2
    assert squares["seen by all"] == 2
    assert sum(squares.values()) == 5

"""A step as bars over time: passes, what is sent, waiting, each in its place and by its name."""

from dpsim.engine import Interval, Recording, run_scenario
from dpsim.report.figures.timeline_figure import timeline_figure


def drawn(*intervals, **more):
    figure = timeline_figure([Interval(0, *each) for each in intervals], **more)
    return sorted(
        (bar.name, message.partition("<br>")[0], round(base, 6), round(base + length, 6))
        for bar in figure.data
        for message, base, length in zip(bar.customdata, bar.base, bar.x, strict=True)
    )


def test_a_step_of_the_tiny_job_is_drawn_as_it_is_computed_on_paper(tiny):
    """Layer 1's all-reduce from 7 to 8, layer 0's from 10 to 11, during which nothing is done."""
    intervals = run_scenario(tiny(overlap="wfbp"), Recording(1)).intervals(workers=1)
    figure = timeline_figure(intervals)
    found = sorted(
        (row, bar.name, round(base, 6), round(base + length, 6))
        for bar in figure.data
        for row, base, length in zip(bar.y, bar.base, bar.x, strict=True)
    )
    assert found == [
        ("computes", "backward", 3, 10),
        ("computes", "forward", 0, 3),
        ("computes", "optimiser", 11, 11.5),
        ("computes", "waiting", 10, 11),
        ("sends", "communication", 7, 8),
        ("sends", "communication", 10, 11),
    ]
    assert figure.layout.xaxis.title.text == "time (s)"
    assert figure.layout.title.text == "One step of worker 0"


def test_every_pass_of_a_step_that_accumulates_has_its_number_and_its_backward_pass():
    found = drawn(
        ("compute", "forward", 0, 1),
        ("compute", "backward", 1, 2),
        ("compute", "forward", 2, 3),
        ("compute", "backward", 3, 4),
        ("compute", "backward", 4, 5),
        ("compute", "update", 5, 6),
    )
    assert found == [
        ("backward", "backward 1", 1, 2),
        ("backward", "backward 2", 3, 5),
        ("forward", "forward 1", 0, 1),
        ("forward", "forward 2", 2, 3),
        ("optimiser", "optimiser", 5, 6),
    ]


def test_what_is_sent_beside_something_else_has_a_row_of_its_own():
    figure = timeline_figure(
        [
            Interval(0, "communication", "unit0-gradients: reduce-scatter", 0.0, 2.0),
            Interval(0, "communication", "unit1: all-gather", 1.0, 3.0),
            Interval(0, "communication", "unit2: all-gather", 2.0, 4.0),
        ]
    )
    (sent,) = [bar for bar in figure.data if bar.name == "communication"]
    assert list(sent.y) == ["sends", "sends (2)", "sends"]
    assert [message.partition("<br>")[0] for message in sent.customdata] == [
        "unit 0-gradients: reduce-scatter",
        "unit 1: all-gather",
        "unit 2: all-gather",
    ]


def test_thin_bars_have_neither_words_nor_outlines_and_times_a_unit_that_suits_them():
    figure = timeline_figure(
        [Interval(3, "compute", "forward", 0, 1e-6), Interval(3, "compute", "backward", 1e-6, 1e-3)]
    )
    forward, backward = figure.data
    assert (forward.text, backward.text) == (("",), ("backward",))
    assert forward.marker.line.width == (0.0,)
    assert figure.layout.xaxis.title.text == "time (ms)"


def test_workers_have_the_given_names():
    figure = timeline_figure(
        [Interval(7, "compute", "forward", 0, 1)], {7: "the slowest, worker 7"}
    )
    assert figure.layout.title.text == "One step of the slowest, worker 7"
    assert timeline_figure([]).data == ()

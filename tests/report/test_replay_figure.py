"""Curves of replays: a line for each, in each of six panels."""

import pytest

from dpsim.report.figures.replay_figure import replay_figure
from dpsim.studies.replay import replay


@pytest.fixture
def trained(tiny):
    def run(sync, rate=0.1):
        scenario = tiny(3, sync=sync)
        settings = {
            "model": "mlp",
            "steps": 5,
            "points": 5,
            "learning_rate": rate,
            "target_accuracy": 0.3,
        }
        return replay(
            scenario.model_copy(update={"replay": scenario.replay.model_copy(update=settings)})
        )

    return run


def test_a_line_for_each_replay_in_each_panel(trained):
    replays = {"coordinated": trained("bsp"), "independent": trained("local-sgd")}
    figure = replay_figure(replays)
    assert [trace.name for trace in figure.data] == ["coordinated"] * 6 + ["independent"] * 6
    assert [trace.name for trace in figure.data if trace.showlegend] == [
        "coordinated",
        "independent",
    ]
    first = figure.data[0]
    assert list(first.x) == replays["coordinated"].curve.column("time_s").tolist()
    assert list(first.y) == replays["coordinated"].curve.column("accuracy").tolist()
    assert {shape.y0 for shape in figure.layout.shapes} == {0.3}


def test_a_loss_that_diverged_leaves_a_gap(trained):
    diverged = trained("bsp", rate=1e200)
    (losses,) = {trace.y for trace in replay_figure({"far": diverged}).data[3:4]}
    assert None in losses


def test_what_learns_stands_below_the_title_and_each_axis_is_named(trained):
    layout = replay_figure({"one": trained("bsp")}).layout
    assert layout.title.text == "Training in simulated time"
    assert layout.title.subtitle.text.startswith("3 workers; mlp, ")
    assert [axis.title.text for axis in (layout.xaxis4, layout.xaxis5, layout.xaxis6)] == [
        "time (s)",
        "samples",
        "sent (GB)",
    ]
    assert layout.yaxis.title.text == "accuracy on test images"

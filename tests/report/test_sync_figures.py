"""Ways to synchronise beside each other: curves of step times, bars of staleness."""

import numpy as np
import pytest

from dpsim.engine import simulate
from dpsim.report.figures.sync_figures import (
    staleness_by_kind_figure,
    step_times_figure,
    straggler_cost_figure,
)


@pytest.fixture(scope="module")
def results(request):
    build = request.getfixturevalue("tiny")
    slow = {"slow": [{"workers": [0], "factor": 2}]}
    servers = {"kind": "parameter-server"}
    return {
        kind: simulate(build(aggregation=servers, sync=kind, disturbance=slow))
        for kind in ("bsp", "asp")
    }


def test_what_is_left_beside_a_slow_worker_is_the_throughput_kept_the_most_first(results, tiny):
    servers = {"kind": "parameter-server"}
    without = {kind: simulate(tiny(aggregation=servers, sync=kind)) for kind in results}
    figure = straggler_cost_figure(results, without)
    (bar,) = figure.data
    kept = {
        kind: result.throughput_samples_per_s / without[kind].throughput_samples_per_s
        for kind, result in results.items()
    }
    assert list(bar.y) == ["asp", "bsp"]
    assert list(bar.x) == pytest.approx([100 * kept["asp"], 100 * kept["bsp"]])
    assert 0 < bar.x[1] < bar.x[0] < 100
    assert f"bsp {kept['bsp']:.0%}" in figure.layout.title.text


def test_each_curve_rises_from_the_shortest_step_to_the_longest(results):
    figure = step_times_figure(results)
    for trace, result in zip(figure.data, results.values(), strict=True):
        assert (trace.x[0], trace.x[-1]) == pytest.approx(
            (result.steps.step.min(), result.steps.step.max())
        )
        assert list(trace.y) == sorted(trace.y)
        assert (trace.y[0], trace.y[-1]) == (0, 100)
    assert [trace.name.split()[0] for trace in figure.data] == ["bsp", "asp"]
    assert (
        len({trace.line.color for trace in figure.data})
        == len({trace.line.dash for trace in figure.data})
        == 2
    )


def test_steps_that_take_about_the_same_have_room_on_their_axis(results):
    figure = step_times_figure({"bsp": results["bsp"]})
    (low, high), steps = figure.layout.xaxis.range, figure.data[0].x
    assert max(steps) < 2 * min(steps)
    assert low == pytest.approx(0.95 * min(steps))
    assert high == pytest.approx(1.05 * max(steps))


def test_the_bars_of_each_are_all_of_its_gradients(results):
    figure = staleness_by_kind_figure(results)
    for trace, result in zip(figure.data, results.values(), strict=True):
        assert sum(trace.y) == pytest.approx(100)
        assert np.dot(trace.x, trace.y) / 100 == pytest.approx(result.staleness["versions"]["mean"])


@pytest.mark.parametrize("draw", [step_times_figure, staleness_by_kind_figure])
def test_titles_and_axes_say_what_is_shown_with_units(results, draw):
    layout = draw(results).layout
    assert layout.title.text
    assert layout.xaxis.title.text in ("step time (s)", "updates in between (count)")
    assert layout.yaxis.title.text.endswith("(%)")

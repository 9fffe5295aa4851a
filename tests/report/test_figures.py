"""Figures as functions.

Their numbers are the result's, axes have units, titles say what is shown, colours are distinct.
"""

import ast
from pathlib import Path

import numpy as np
import pytest

from dpsim import load_scenario, simulate
from dpsim.base.units import TIME, human
from dpsim.report.figures import style
from dpsim.report.figures.resource_figures import footprint_figure, staleness_figure
from dpsim.report.figures.scaling_figures import (
    algorithms_figure,
    knobs_figure,
    scaling_figure,
    winners,
)
from dpsim.report.figures.step_figures import (
    breakdown_figure,
    step_distribution_figure,
)
from dpsim.report.theme import SURFACES, contrast

SCENARIOS = Path(__file__).parents[2] / "scenarios"


@pytest.fixture(scope="module")
def quickstart():
    return simulate(load_scenario(SCENARIOS / "quickstart.yaml", ["run.steps=10"]))


def titles(figure):
    layout = figure.layout
    return layout.title.text, layout.xaxis.title.text, layout.yaxis.title.text


def test_the_parts_of_a_bar_are_the_parts_of_the_step(quickstart):
    figure = breakdown_figure([quickstart, quickstart.to_json()], ["one", "same"])
    bars = {bar.name.partition(":")[0]: bar.x for bar in figure.data}
    # Its numbers stand in the bars, so that the legend need not repeat them.
    bars["computing"] = bars.pop("computing (forward, backward, optimiser)")
    compute, step = quickstart.parts_s["compute"], quickstart.step_time_s["mean"]
    assert bars["computing"] == pytest.approx([1e3 * compute] * 2)
    output = figure.data[0].text[0]
    assert output == f"{human(compute, TIME, 3)}<br>{compute / step:.0%}"
    assert sum(x[0] for x in bars.values()) == pytest.approx(1e3 * quickstart.step_time_s["mean"])
    assert titles(figure)[:2] == ("Breakdown of the step time", "mean time of a step (ms)")
    assert len({bar.marker.color for bar in figure.data}) == len(figure.data)
    assert (
        titles(breakdown_figure([quickstart]))[0]
        == f"Breakdown of a step of {human(step, TIME, 4)}"
    )


def test_a_legend_says_what_a_narrow_part_has_no_room_for(quickstart):
    sent = quickstart.parts_s["exposed_comm"]
    share = sent / quickstart.step_time_s["mean"]

    def names(*results):
        return [bar.name for bar in breakdown_figure(results, list("abc")[: len(results)]).data]

    took = human(sent, TIME, 3)
    assert f"exposed communication: {took}, {share:.0%}" in names(quickstart)
    assert f"exposed communication: {took} / {took}" in names(quickstart, quickstart)
    assert "exposed communication" in names(*3 * [quickstart])
    # It has room in its bar for its numbers.
    assert "waiting for slower workers" in names(quickstart)


def test_a_distribution_holds_all_steps(quickstart):
    figure = step_distribution_figure(quickstart)
    assert sum(figure.data[0].y) == pytest.approx(1)
    assert "10 steps of 32 workers" in titles(figure)[0]
    marked = [shape.x0 for shape in figure.layout.shapes]
    times = 1e3 * quickstart.steps.step
    assert marked == pytest.approx([times.mean(), np.percentile(times, 95)])


def test_a_scaling_curve_and_what_it_would_be_without_communication():
    points = [
        {"workers": 16, "throughput_samples_per_s": 1500.0, "scaling_efficiency": 0.75},
        {"workers": 8, "throughput_samples_per_s": 900.0, "scaling_efficiency": 0.9},
    ]
    ideal, reached = scaling_figure(points).data
    assert list(reached.x) == [8, 16]
    assert list(reached.y) == pytest.approx([900 / 8, 1500 / 16])
    assert list(ideal.y) == pytest.approx([125, 125])
    assert scaling_figure(points).layout.yaxis.rangemode == "tozero"
    assert titles(scaling_figure(points)) == (
        "Efficiency 90% on 8 workers, 75% on 16",
        "workers",
        "samples/s a GPU",
    )


def test_a_scaling_curve_has_a_band_where_the_model_may_be_off_and_rings_what_is_shown():
    within = {"low": 0.8, "high": 2.0}
    points = [
        {
            "workers": workers,
            "throughput_samples_per_s": 100.0 * workers,
            "scaling_efficiency": 0.5,
            "step_time_s": {"mean": 1.0},
            "interval_s": within,
        }
        for workers in (2, 4)
    ]
    band, _, reached = scaling_figure(points, current=4).data
    assert list(band.x) == [2, 4, 4, 2]
    assert list(band.y) == pytest.approx([50, 50, 125, 125])
    assert list(reached.marker.size) == [7, 14]
    *colour, alpha = ast.literal_eval(band.fillcolor.removeprefix("rgba"))
    for surface in SURFACES.values():
        behind = [int(surface.background[at : at + 2], 16) for at in (1, 3, 5)]
        seen = [
            alpha * over + (1 - alpha) * under for over, under in zip(colour, behind, strict=True)
        ]
        assert (
            contrast("#" + "".join(f"{round(each):02x}" for each in seen), surface.background) > 1.3
        )


ROWS = [
    {"bytes": size, "algorithm": name, "time_s": time}
    for size, times in ((1000, (3e-6, 1e-6)), (10_000, (4e-6, 2e-6)), (100_000, (5e-6, 9e-6)))
    for name, time in zip(("ring", "tree"), times, strict=True)
]


def test_the_fastest_algorithm_of_each_size_is_marked():
    assert winners(ROWS) == [(1000, 100_000, "tree"), (100_000, 100_000, "ring")]
    figure = algorithms_figure(ROWS)
    assert [line.name for line in figure.data] == ["ring", "tree"]
    assert list(figure.data[0].y) == pytest.approx([3e-6, 4e-6, 5e-6])
    assert (figure.layout.xaxis.type, figure.layout.yaxis.type) == ("log", "log")
    assert figure.layout.yaxis.ticksuffix == "s"
    assert [(shape.x0, shape.x1, shape.fillcolor) for shape in figure.layout.shapes] == [
        (1000, 100_000, figure.data[1].line.color),
        (100_000, 100_000, figure.data[0].line.color),
    ]
    assert titles(figure) == (
        "Fastest: tree from 1 kB, ring from 100 kB",
        "size (bytes)",
        "time",
    )


def test_many_algorithms_differ_in_more_than_colour():
    rows = [{"bytes": 8, "algorithm": f"a{number}", "time_s": 1e-6} for number in range(13)]
    looks = {
        (line.line.color, line.line.dash, line.marker.symbol)
        for line in algorithms_figure(rows).data
    }
    assert len(looks) == 13


def test_two_kinds_of_staleness_are_not_mixed():
    few = ["run.steps=6", "run.warmup=1", "cluster.nodes=2"]
    result = simulate(load_scenario(SCENARIOS / "ssp.yaml", few))
    figure = staleness_figure(result)
    versions, gap = figure.data
    counted = np.bincount(result.steps.versions.ravel())
    assert list(versions.y) == pytest.approx(list(counted / counted.sum()))
    assert sum(gap.y) == pytest.approx(1)
    assert versions.name != gap.name
    assert titles(figure)[0].startswith(
        f"Staleness: {result.staleness['versions']['mean']:.3g} versions on average"
    )


def test_memory_is_in_gb_beside_the_gpus(quickstart):
    memory = quickstart.to_json()["memory"]
    figure = footprint_figure(memory)
    assert sum(bar.x[0] for bar in figure.data) == pytest.approx(memory["total_bytes"] / 1e9)
    assert figure.layout.shapes[0].x0 == pytest.approx(16.945, abs=1e-3)
    assert titles(figure)[:2] == ("Memory of a GPU: 7.35 of 16.9 GB, fits", "memory (GB)")


def test_knobs_are_in_percent_and_those_that_hurt_stand_out():
    knobs = [
        {"change": "2x NIC rate", "change_per_sample": -0.31},
        {"change": "another policy", "change_per_sample": 0.1},
        {"change": None, "change_per_sample": 0.0},
    ]
    figure = knobs_figure({"knobs": knobs})
    assert list(figure.data[0].x) == pytest.approx([-31, 10])
    assert figure.data[0].marker.color[0] != figure.data[0].marker.color[1]
    assert titles(figure)[0] == "Limits: 2x NIC rate gains most"


def test_times_are_shown_in_a_unit_that_suits_them():
    assert [style.time_unit(seconds) for seconds in (3e-6, 0.02, 62.97, 600.0, 7200.0)] == [
        (1e6, "us"),
        (1e3, "ms"),
        (1.0, "s"),
        (1 / 60, "min"),
        (1 / 3600, "h"),
    ]


def test_steps_that_differ_only_by_rounding_are_one_bar(tiny):
    result = simulate(tiny())
    result.steps.compute[0] = np.nextafter(result.steps.compute[0], 2 * result.steps.compute[0])
    figure = step_distribution_figure(result)
    assert sum(figure.data[0].y) == pytest.approx(1)


def test_long_titles_are_wrapped_and_stay_below_the_upper_edge():
    import plotly.graph_objects as go

    short = style.set_style(go.Figure(), "Short", "x", "y").layout.title
    long = style.set_style(
        go.Figure(), "A title " * 10 + "<br><sub>below</sub>", "x", "y"
    ).layout.title
    assert "<br>" not in short.text
    assert all(len(line) <= 44 for line in long.text.split("<br>"))
    assert long.text.replace("<br>", " ") == ("A title " * 10).strip()
    assert long.subtitle.text == "below"
    # The room that is reserved, above plus below, is the same.
    assert long.pad.t > short.pad.t
    assert long.pad.t + long.pad.b == short.pad.t + short.pad.b


def test_long_times_are_in_hours():
    assert [style.long_time(seconds) for seconds in (0.5, 90.0, 600.0, 10_800.0)] == [
        "500 ms",
        "90 s",
        "10 min",
        "3 h",
    ]


def test_ticks_are_the_counts_and_round_numbers_and_free_runs_have_an_axis():
    assert style.counts_axis([64, 8, 8])["tickvals"] == [8, 64]
    assert style.log_axis([3.0, 40.0])["tickvals"] == [1, 2, 5, 10, 20, 50, 100, 200, 500]
    assert style.log_axis([1e-3, 1e4])["tickvals"][:2] == pytest.approx([1e-3, 1e-2])
    assert style.log_axis([0.4, 2e3])["ticktext"][0] == "0.1"
    assert style.log_axis([0.0, float("inf"), 2.0])["tickvals"] == [1, 2, 5, 10, 20, 50]
    assert style.log_axis([0.4, 2e3])["ticktext"][-1] == "10k"
    assert style.log_axis([0.0])["type"] == "log"

"""Figures of the classic questions: points are the runs', the front is what nothing beats."""

from dataclasses import replace
from pathlib import Path

import pytest

from dpsim import load_scenario, simulate
from dpsim.report.figures.batch_figures import (
    cost_figure,
    epochs_figure,
    error_figure,
    has_targets,
    learners_figure,
    time_to_target_figure,
    utilisation_figure,
)

QUICKSTART = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"


@pytest.fixture(scope="module")
def runs():
    """Two numbers of nodes, two batches each."""
    return [
        simulate(
            load_scenario(
                QUICKSTART,
                [f"cluster.nodes={nodes}", f"workload.batch_per_gpu={batch}", "run.steps=3"],
            )
        )
        for nodes in (1, 4)
        for batch in (16, 64)
    ]


def test_epochs_are_those_of_the_task(runs):
    (line,) = epochs_figure(runs).data
    assert list(line.x) == [128, 512, 512, 2048]
    by_batch = {run.to_target.global_batch: run.to_target.training.epochs for run in runs}
    assert list(line.y) == pytest.approx([by_batch[batch] for batch in line.x])
    assert set(line.marker.symbol) == {"circle-open", "circle"} or all(
        run.to_target.batch.extrapolated for run in runs
    )


def test_time_has_a_line_for_each_batch_of_a_gpu(runs):
    lines = time_to_target_figure([run.to_json() for run in runs]).data
    assert [line.name for line in lines] == ["16 a GPU", "64 a GPU"]
    assert [list(line.x) for line in lines] == [[8, 32], [8, 32]]
    assert lines[0].y[0] == pytest.approx(runs[0].to_target.training.time_s / 3600)
    one_number = time_to_target_figure(runs[:2])
    assert list(one_number.data[0].x) == [128, 512]
    assert one_number.layout.xaxis.title.text == "global batch (samples)"


def test_utilisation_is_the_share_of_the_peak(runs):
    (line,) = utilisation_figure(runs[:2]).data
    assert list(line.x) == [16, 64]
    assert list(line.y) == [run.utilisation.mfu for run in runs[:2]]
    lines = utilisation_figure(runs).data
    assert [line.name for line in lines] == ["8 GPUs", "32 GPUs"]
    assert list(lines[1].y) == [run.utilisation.mfu for run in runs[2:]]


def test_utilisation_of_a_model_without_a_target_is_against_its_batch_too(runs):
    unknown = [replace(run, to_target=None) for run in runs[:2]]
    (line,) = utilisation_figure(unknown).data
    assert list(line.x) == [16, 64]


def test_the_front_is_what_no_run_beats(runs):
    every, best = cost_figure(runs, 2.0, "EUR").data
    points = list(zip(every.x, every.y, strict=True))
    assert every.y[0] == pytest.approx(2.0 * runs[0].to_target.training.gpu_hours)
    for x, y in zip(best.x, best.y, strict=True):
        assert not any(a <= x and b <= y and (a, b) != (x, y) for a, b in points)
    assert cost_figure(runs).layout.yaxis.title.text == "GPU hours"


def test_learners_and_published_errors_are_in_order(runs):
    (line,) = learners_figure([(2, runs[1]), (1, runs[0])]).data
    assert list(line.x) == [1, 2]
    rows = [(256, 23.6, 0.12), (128, 23.5, 0.1)]
    (errors,) = error_figure({"": rows}, "title").data
    assert list(errors.x) == [128, 256]
    assert not errors.showlegend
    named = error_figure({"constant": rows, "in proportion": rows[:1]}, "title").data
    assert [line.name for line in named if line.showlegend] == ["constant", "in proportion"]


def test_targets_are_known_or_not(runs):
    assert has_targets(runs)
    assert not has_targets(runs[:1])
    unknown = {"to_target": {"time_s": None}}
    assert not has_targets([{"to_target": None}, {}, unknown, unknown])

"""Strong scaling, weak scaling and batches.

What is varied, what is best, where more workers stop helping.
"""

from types import SimpleNamespace

import pytest

from dpsim.base.errors import DpsimError, ScenarioError
from dpsim.report.text.batch_study import batch_study_notes, batch_study_table
from dpsim.studies.scale import BatchStudy, batch_study

QUICKSTART = "scenarios/quickstart.yaml"
FEW = ["run.steps=3", "run.warmup=0"]


def test_strong_scaling_keeps_the_global_batch():
    study = batch_study(QUICKSTART, [2, 4, 8], overrides=FEW, fixed_global_batch=True)
    assert [
        (p.nodes, p.batch_per_gpu, p.gradient_accumulation, p.global_batch) for p in study.points
    ] == [
        (2, 64, 2, 2048),
        (4, 64, 1, 2048),
        (8, 32, 1, 2048),
    ]
    assert len({point.training.steps for point in study.points}) == 1


def test_strong_scaling_leaves_accumulated_passes_out_before_it_shortens_them():
    passes = "workload.gradient_accumulation=3"
    study = batch_study(QUICKSTART, [4, 6, 12, 24], [], [*FEW, passes], fixed_global_batch=True)
    assert [(p.batch_per_gpu, p.gradient_accumulation) for p in study.points] == [
        (64, 3),
        (64, 2),
        (64, 1),
        (32, 1),
    ]
    assert {point.global_batch for point in study.points} == {6144}


def test_a_stated_global_batch_stays_as_it_is():
    stated = ["workload.batch_per_gpu=16", "workload.global_batch=1024"]
    study = batch_study(QUICKSTART, [1, 4, 64], [], [*FEW, *stated])
    assert [(p.batch_per_gpu, p.gradient_accumulation) for p in study.points] == [
        (16, 8),
        (16, 2),
        (2, 1),
    ]


def test_weak_scaling_keeps_the_batch_of_each_worker():
    study = batch_study(QUICKSTART, [1, 2], overrides=FEW)
    assert [(p.batch_per_gpu, p.global_batch) for p in study.points] == [(64, 512), (64, 1024)]
    assert study.points[0].training.steps > study.points[1].training.steps


def test_the_best_batch_of_each_number_of_nodes_ends_first():
    study = batch_study(QUICKSTART, [1, 16], [32, 48, 96], FEW)
    assert study.compares_time_to_target
    for best in study.best_by_nodes:
        own = [point.training for point in study.points if point.nodes == best.nodes]
        # With 16 nodes of 96 samples a GPU it is not known.
        rivals = [training.time_s for training in own if training is not None]
        assert best.training.time_s == min(rivals)
    small, large = study.best_by_nodes
    assert small.batch_per_gpu > large.batch_per_gpu, "many workers pass the critical batch sooner"


def test_without_constants_throughput_is_compared():
    study = batch_study(QUICKSTART, [1], [8, 16], [*FEW, "workload.model=vgg16"])
    assert not study.compares_time_to_target
    assert study.best_by_nodes[0].batch_per_gpu == 16
    assert study.to_json()["compared"] == "throughput"


class Point:
    """A number of nodes at a given pace."""

    training = None

    def __init__(self, nodes, pace):
        self.nodes, self.result = nodes, SimpleNamespace(throughput_samples_per_s=pace)


@pytest.mark.parametrize(
    ("paces", "end"),
    [([1, 2, 3], None), ([1, 2, 2.05], 2), ([1, 0.9, 3], 1), ([1], None), ([1, 1.06, 1.12], None)],
)
def test_more_workers_stop_helping_where_they_gain_less_than_five_percent(paces, end):
    points = tuple(Point(nodes, pace) for nodes, pace in enumerate(paces, 1))
    assert BatchStudy(points, ()).stops_helping_at_nodes == end


def test_a_batch_that_no_run_took_to_the_target_is_no_gain():
    """Momentum reached it with up to 8,192: 32 x 64 and 64 x 64 do, 256 x 64 does not."""
    study = batch_study(QUICKSTART, [4, 8, 32], overrides=FEW)
    assert [point.training is not None for point in study.points] == [True, True, False]
    assert study.compares_time_to_target
    assert study.stops_helping_at_nodes == 8
    lines = batch_study_notes(study)
    assert lines[0].startswith("beyond 8 nodes, more workers are not known to gain 5 % in time to")
    table = batch_study_table(study)
    hours = next(column for column in table.columns if column.header == "hours")
    assert list(hours.cells)[-1] == ""


def test_configurations_that_cannot_be_simulated_are_left_out_and_reported():
    study = batch_study(QUICKSTART, [3, 4], overrides=FEW, fixed_global_batch=True)
    assert [point.nodes for point in study.points] == [4]
    assert study.left_out == ("3 nodes: 24 workers do not divide a global batch of 2,048",)
    study = batch_study(QUICKSTART, [1], [64, 256], FEW)
    assert [point.batch_per_gpu for point in study.points] == [64]
    (memory,) = study.left_out
    assert memory.startswith("1 node, 256 samples per GPU: ")
    assert "must fit in the 16.9 GB" in memory


def test_a_study_of_nothing_is_an_error():
    with pytest.raises(
        DpsimError,
        match="must have at least one point that can be simulated, but: 3 nodes: 24 workers",
    ):
        batch_study(QUICKSTART, [3], overrides=FEW, fixed_global_batch=True)
    with pytest.raises(ScenarioError, match="batch_per_gpu"):
        batch_study(QUICKSTART, [1], [0], FEW)


def test_one_number_of_nodes_says_nothing_of_larger_ones():
    one, two = (batch_study(QUICKSTART, nodes, [32, 64], FEW) for nodes in ([1], [1, 2]))
    gains = "each larger number of nodes still gains more than 5 %"
    assert gains in batch_study_notes(two)
    assert gains not in batch_study_notes(one)

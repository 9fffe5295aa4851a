"""Learners that share a GPU."""

import numpy as np
import pytest

from dpsim.base.errors import DpsimError
from dpsim.workload import (
    Accelerator,
    Constants,
    Layer,
    LayerTimes,
    Model,
    averaging,
    compute_times,
    learners_table,
    measured_time,
    shared_times,
    stretch,
)
from dpsim.workload.learners import UtilisationPoint, best_learners


def points(*pairs):
    return [UtilisationPoint(batch=batch, samples_per_s=rate) for batch, rate in pairs]


CURVE = points((1, 100), (4, 200), (8, 200))  # 10 ms, 20 ms, 40 ms


def test_seconds_are_linear_between_points_constant_below_and_in_proportion_above():
    late = measured_time(points((4, 200), (8, 200)))
    assert [late(batch) for batch in (1, 4, 6, 8, 16)] == pytest.approx(
        [0.02, 0.02, 0.03, 0.04, 0.08]
    )


@pytest.mark.parametrize(("learners", "factor"), [(1, 1), (2, 4 / 3), (4, 2), (8, 4), (16, 8)])
def test_learners_take_the_time_of_all_their_samples_in_flight(learners, factor):
    assert stretch(measured_time(CURVE), 1, learners) == pytest.approx(factor)


def test_learners_are_free_until_the_gpu_is_full():
    def flat_then_full(batch):
        return max(batch, 8) * 1e-3

    assert [stretch(flat_then_full, 2, k) for k in (1, 2, 4, 8)] == [1, 1, 1, 2]


def test_gradients_are_averaged_through_memory_but_not_for_one_learner():
    model = Model("two", (Layer("a", "linear", (10,)), Layer("b", "linear", (30,))), "sample")
    assert averaging(model, 1, bandwidth=4.0).tolist() == [0, 0]
    assert averaging(model, 3, bandwidth=4.0).tolist() == [
        4 * 10,
        4 * 30,
    ]  # three read, one written, 4 bytes each


def test_passes_are_stretched_and_gradients_averaged_with_the_last():
    single = LayerTimes(np.array([1.0, 2.0]), np.array([3.0, 4.0]), 0.5, passes=3)
    times = shared_times(single, 1.5, np.array([0.25, 0.0]))
    assert times.forward.tolist() == [1.5, 3.0]
    assert times.step == 3 * 1.5 * 10 + 0.25 + 0.5
    assert shared_times(single, 1.0, np.zeros(2)).step == single.step


def test_learners_updates_share_the_memory_and_not_the_host():
    """Two weights of 1,000 elements: 20 bytes of traffic each at 1,000 B/s are 40 s."""
    layers = (Layer("a", "linear", (1000,)), Layer("b", "linear", (1000,)))
    gpu = Accelerator("test", {"fp32": 1.0}, memory_bandwidth=1000.0)

    def update(learners, launch):
        constants = Constants(launch=launch, update_kernels=1.0, step=7.0)
        return compute_times(
            Model("two", layers, "sample"), gpu, batch=1, constants=constants, learners=learners
        ).optimizer

    assert [update(learners, 0.0) for learners in (1, 3)] == [40 + 7, 3 * 40 + 7]
    assert [update(learners, 50.0) for learners in (1, 2, 3)] == [100 + 7, 100 + 7, 120 + 7]


def saturating(batch, learners):
    return max(8, batch * learners) * 1e-3 + learners * 1e-4


def test_the_best_number_fills_the_gpu_and_no_more():
    row = best_learners(saturating, batch=2, most=16)
    assert row.best == 4
    assert row.samples_per_s_alone == pytest.approx(2 / 8.1e-3)
    assert row.samples_per_s_best == pytest.approx(8 / 8.4e-3)
    assert best_learners(saturating, batch=8, most=16).best == 1
    assert best_learners(saturating, batch=2, most=3).best == 3


def test_the_table_leaves_out_batches_that_do_not_fit():
    rows = learners_table(saturating, most=lambda batch: 8 // batch, batches=(1, 4, 8, 16))
    assert [(row.batch, row.best) for row in rows] == [(1, 8), (4, 2), (8, 1)]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (points((4, 100), (4, 120)), r"points of rising batch, but got \[4, 4\]"),
        (points((4, 100), (8, 300)), "batch 8 takes 0.02667 s and batch 4 0.04 s"),
        ([], "points of rising batch"),
    ],
)
def test_a_curve_that_cannot_be_is_refused(wrong, message):
    with pytest.raises(DpsimError, match=message):
        measured_time(wrong)

"""A batch that grows: the same epochs, fewer updates, the time that the engine says."""

from pathlib import Path

import pytest

from dpsim import DpsimError, load_scenario, simulate
from dpsim.studies.growing_batch import growing_batch

QUICKSTART = Path(__file__).parents[2] / "scenarios" / "quickstart.yaml"
SAMPLES = 1_000_000


@pytest.fixture(scope="module")
def scenario():
    return load_scenario(QUICKSTART, ["run.steps=3", "run.warmup=0", "disturbance={}"])


def test_batches_grow_and_updates_shrink_by_as_much(scenario):
    growth = growing_batch(scenario, SAMPLES, 2, (3, 2, 1))
    assert [stage.global_batch for stage in growth.growing] == [2048, 4096, 8192]
    assert [stage.global_batch for stage in growth.constant] == [2048] * 3
    for constant, growing, times in zip(growth.constant, growth.growing, (1, 2, 4), strict=True):
        assert growing.epochs == constant.epochs
        assert growing.updates * times == pytest.approx(constant.updates)


def test_time_is_that_of_the_epochs_at_each_throughput(scenario):
    growth = growing_batch(scenario, SAMPLES, 2, (3, 2))
    rate = simulate(scenario).throughput_samples_per_s
    assert growth.constant[0].seconds == pytest.approx(3 * SAMPLES / rate)
    constant, growing = growth.seconds
    assert constant == pytest.approx(5 * SAMPLES / rate)
    assert growing < constant


def test_what_does_not_fit_is_accumulated(scenario):
    growth = growing_batch(scenario, SAMPLES, 8, (1, 1, 1))
    assert [stage.global_batch for stage in growth.growing] == [2048, 16384, 131072]


def test_a_factor_of_one_changes_nothing_and_none_below_is_taken(scenario):
    growth = growing_batch(scenario, SAMPLES, 1, (2, 1))
    assert growth.constant == growth.growing
    with pytest.raises(DpsimError, match="factor must be at least 1, but got 0"):
        growing_batch(scenario, SAMPLES, 0)

"""Time to target: steps to it times the step, where constants are known."""

import math

import pytest

from dpsim import load_scenario
from dpsim.convergence import tasks
from dpsim.engine.to_target import time_to_target

QUICKSTART = "scenarios/quickstart.yaml"


def target(*overrides, step=0.25):
    return time_to_target(load_scenario(QUICKSTART, overrides), step)


def test_time_and_cost_are_steps_times_the_step():
    found, task = target(), tasks()["resnet50-imagenet"]
    assert found.global_batch == 2048
    assert found.steps == task.steps(2048).best
    assert found.samples == found.steps * 2048
    assert found.epochs == pytest.approx(found.samples / 1_281_167)
    assert found.time_s == found.steps * 0.25
    assert found.gpu_hours == pytest.approx(found.time_s * 32 / 3600)
    assert found.cost(price_per_gpu_hour=2.5) == pytest.approx(2.5 * found.gpu_hours)


def test_the_interval_is_that_of_the_constants():
    found = target()
    reach = math.exp(1.96 * found.task.law.log_error(2048))
    assert found.high_s / found.time_s == pytest.approx(reach)
    assert found.time_s / found.low_s == pytest.approx(reach)


def test_accumulated_passes_and_learners_count_in_the_global_batch():
    assert target("workload.gradient_accumulation=2").global_batch == 4096


def test_the_global_batch_is_judged_and_the_learning_rate_advised():
    assert target("cluster.nodes=1").batch.verdict == "too small"
    assert target().batch.verdict == "fine"
    large = target("cluster.nodes=64")
    assert large.batch.verdict == "too large"
    assert not large.learning_rate.holds


@pytest.mark.parametrize(
    "overrides",
    [["workload.model=vgg16"], ["strategy.sync.kind=asp"], ["strategy.sync.kind=local-sgd"]],
)
def test_nothing_is_said_where_no_constants_are_known(overrides):
    assert target(*overrides) is None


def test_doubts_are_said():
    assert target("workload.optimizer=adam").notes == (
        "steps to the target are known of SGD with momentum, learning rate scaled by AdaScale "
        "only, the scenario has adam",
    )
    assert "compressed ones may take more" in target("strategy.compression.kind=top-k").notes[0]
    assert target().notes == ()


def test_json_says_all_of_it():
    found = target().to_json()
    assert found["task"] == "resnet50-imagenet"
    assert found["target"] == "top-1 accuracy 0.75"
    assert found["low_s"] < found["time_s"] < found["high_s"]
    assert found["steps_by_noise"] == pytest.approx(found["steps"], rel=0.2)
    assert found["batch"]["verdict"] == "fine"
    assert found["learning_rate"]["rule"] == "linear"


def test_epochs_are_left_out_where_the_data_sets_size_is_not_known():
    found = target("workload.model=bert-large", "workload.optimizer=adam")
    assert found.task.name == "bert-large-pretraining"
    assert found.epochs is None

"""Strategies that are one and the same train the same parameters, and one worker is plain SGD."""

from typing import ClassVar

import numpy as np
import pytest

from dpsim.disturbance import random_stream
from dpsim.strategy.sync import Sync
from dpsim.studies.replay import replay
from dpsim.studies.replay.learning import NETWORKS, Sampler, digits

JITTER = {"jitter": {"kind": "gamma", "cv": 0.5}, "slow": [{"workers": [1], "factor": 3}]}
MOMENTUM = {"momentum": 0.9}
SERVERS = "parameter-server"


def assert_same(one, other, tolerance=1e-10):
    np.testing.assert_allclose(one.parameters, other.parameters, rtol=0, atol=tolerance)


def plain_sgd(name, batch, steps, momentum=0.0, rate=0.1):
    network, data = NETWORKS[name], digits()
    weights, velocity = network.start(random_stream(0, "parameters", 0)), 0.0
    deal = Sampler(len(data.labels), 1, batch, 0)
    for step in range(steps):
        chosen = deal.indices(np.zeros(1, dtype=int), np.array([step]))
        _, (gradient,) = network.gradients(weights[None], data.images[chosen], data.labels[chosen])
        velocity = momentum * velocity + gradient
        weights = weights - rate * velocity
    return weights


def two_levels(periods, *, group=1, every=1, **outer):
    outer = {"every": periods, **outer}
    return {"kind": "local-sgd", "group": group, "every": every, "outer": outer}


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_one_worker_is_plain_sgd_to_the_last_bit(replayed, name, momentum):
    one = replayed(1, settings={"model": name, "momentum": momentum})
    np.testing.assert_array_equal(one.parameters, plain_sgd(name, 4, 12, momentum))


@pytest.mark.parametrize(
    "strategy",
    [{"aggregation": SERVERS, "sync": "asp"}, {"sync": "local-sgd"}, {"aggregation": "gossip"}],
    ids=str,
)
def test_so_is_one_worker_of_any_strategy(replayed, strategy):
    np.testing.assert_array_equal(replayed(1, **strategy).parameters, plain_sgd("softmax", 4, 12))


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("workers", [2, 4, 7])
def test_bsp_is_one_process_on_the_joined_batch(replayed, name, workers):
    parallel = replayed(workers, settings={"model": name, **MOMENTUM}, disturbance=JITTER)
    np.testing.assert_allclose(
        parallel.parameters, plain_sgd(name, 4 * workers, 12, 0.9), rtol=0, atol=1e-10
    )


@pytest.mark.parametrize(
    "strategy",
    [
        {"aggregation": SERVERS},
        {"aggregation": "host"},
        {"aggregation": "sharded"},
        {"sync": {"kind": "backup", "backups": 0}},
        {"sync": {"kind": "ssp", "staleness": 0}},
        {"aggregation": SERVERS, "sync": {"kind": "backup", "backups": 0}},
        {"aggregation": SERVERS, "sync": {"kind": "ssp", "staleness": 0}},
        {"sync": {"kind": "local-sgd", "every": 5, "switch_after": 100}},
        {"overlap": "priority"},
        {"sync": {"kind": "local-sgd", "every": 1}},
        {"sync": {"kind": "local-sgd", "every": 1}, "aggregation": SERVERS},
        {"sync": two_levels(1, group=2, every=1, optimizer="sgd")},
    ],
    ids=str,
)
def test_what_is_bsp_by_another_name_trains_as_bsp(replayed, strategy):
    settings = {} if "every': 1}" in str(strategy) else MOMENTUM
    assert_same(
        replayed(disturbance=JITTER, settings=settings),
        replayed(disturbance=JITTER, settings=settings, **strategy),
    )


def test_a_staleness_without_end_is_asp(replayed):
    ssp, asp = (
        replayed(aggregation=SERVERS, sync=sync, disturbance=JITTER)
        for sync in ({"kind": "ssp", "staleness": 10_000}, "asp")
    )
    np.testing.assert_array_equal(ssp.parameters, asp.parameters)


def test_single_workers_with_an_averaging_outer_step_are_local_sgd(replayed):
    average = {"optimizer": "sgd", "learning_rate": 1.0}
    local = replayed(sync={"kind": "local-sgd", "every": 3}, settings=MOMENTUM)
    for sync in (two_levels(1, every=3, **average), two_levels(3, every=1, **average)):
        assert_same(local, replayed(sync=sync, settings=MOMENTUM))
    in_fragments = replayed(sync=two_levels(1, every=3, fragments=5, **average), settings=MOMENTUM)
    assert_same(local, in_fragments)


def test_groups_of_workers_are_workers_with_their_batches(replayed):
    pairs = replayed(4, sync=two_levels(3, group=2))
    assert_same(pairs, replayed(2, sync=two_levels(3), settings={"batch": 8}), 1e-9)


@pytest.mark.parametrize("overlap", [0, 1])
def test_diloco_is_its_equations(replayed, overlap):
    """Two groups of one worker, an outer step every four steps, in two fragments that take turns."""
    sync = two_levels(4, fragments=2, overlap=overlap, momentum=0.5)
    replay = replayed(2, sync=sync)
    network, data, deal = NETWORKS["softmax"], digits(), Sampler(len(digits().labels), 2, 4, 0)
    start = network.start(random_stream(0, "parameters", 0))
    workers, outer, momentum = [start.copy(), start.copy()], start.copy(), np.zeros_like(start)
    half = network.parameters // 2
    due = {}
    for step in range(12):
        for each in (0, 1):
            chosen = deal.indices(np.array([each]), np.array([step]))
            _, (gradient,) = network.gradients(
                workers[each][None], data.images[chosen], data.labels[chosen]
            )
            workers[each] -= 0.1 * gradient
        if step % 2:
            part = slice(0, half) if step % 4 == 1 else slice(half, None)
            due[step + overlap] = part, outer[part] - (workers[0] + workers[1])[part] / 2
        if step in due:
            part, moved = due[step]
            momentum[part] = 0.5 * momentum[part] + moved
            outer[part] -= 0.7 * (moved + 0.5 * momentum[part])
            for weights in workers:
                weights[part] = (weights[part] + outer[part]) / 2 if overlap else outer[part]
    np.testing.assert_allclose(replay.parameters, sum(workers) / 2, rtol=0, atol=1e-12)


def test_learners_of_one_gpu_that_average_models_are_workers_that_do(replayed):
    sync = {"kind": "local-sgd", "every": 3}
    assert_same(replayed(2, sync=sync, workload={"learners_per_gpu": 2}), replayed(4, sync=sync))


def test_learners_of_one_gpu_that_average_gradients_are_a_larger_batch(replayed):
    assert_same(replayed(2, workload={"learners_per_gpu": 2}), replayed(2, settings={"batch": 8}))


def test_summing_gradients_is_a_learning_rate_times_the_workers(replayed):
    for strategy in ({}, {"aggregation": SERVERS, "sync": "asp"}):
        total = replayed(
            settings={"reduction": "sum", "learning_rate": 0.025}, disturbance=JITTER, **strategy
        )
        assert_same(total, replayed(disturbance=JITTER, **strategy))


def test_synchronous_model_averaging_is_its_three_equations(replayed):
    """Two workers of two learners, learner by learner, from the paper."""
    replay = replayed(2, sync={"kind": "sma", "momentum": 0.5}, workload={"learners_per_gpu": 2})
    network, data, deal = NETWORKS["softmax"], digits(), Sampler(len(digits().labels), 4, 4, 0)
    learners = [network.start(random_stream(0, "parameters", 0)) for _ in range(4)]
    centre = before = learners[0]
    for step in range(12):
        corrections = [0.25 * (weights - centre) for weights in learners]
        for each, correction in enumerate(corrections):
            chosen = deal.indices(np.array([each]), np.array([step]))
            _, (gradient,) = network.gradients(
                learners[each][None], data.images[chosen], data.labels[chosen]
            )
            learners[each] = learners[each] - (0.1 * gradient + correction)
        centre, before = centre + sum(corrections) + 0.5 * (centre - before), centre
    np.testing.assert_allclose(replay.parameters, centre, rtol=0, atol=1e-12)


class Drawn(Sync):
    """A kind that says no more than that its workers have a central model."""

    one_version: ClassVar[bool] = False
    central_model: ClassVar[bool] = True
    kind: str = "drawn"
    every: int = 1

    def exchanges(self, step, period):
        return "nothing" if (step + 1) % self.every else "models"


def test_a_central_model_moves_to_the_mean_unless_its_kind_says_otherwise(tiny):
    """As under SMA without momentum; where nothing is exchanged no one is corrected."""

    def trained(steps=12, **fields):
        scenario = tiny(3, sync={"kind": "sma", "momentum": 0})
        short = scenario.replay.model_copy(update={"model": "softmax", "batch": 4, "steps": steps})
        strategy = scenario.strategy
        if fields:
            strategy = strategy.model_copy(update={"sync": Drawn(**fields)})
        return replay(scenario.model_copy(update={"strategy": strategy, "replay": short}))

    assert_same(trained(every=1), trained())
    start = trained(every=20)
    assert_same(start, trained(steps=19, every=20), tolerance=0)
    assert start.curve.points[-1].loss != trained().curve.points[-1].loss


def test_the_same_seed_gives_the_same_bits_and_another_one_others(replayed):
    strategy = {"aggregation": SERVERS, "sync": "asp", "compression": "qsgd", "disturbance": JITTER}
    one, same, other = (replayed(seed=seed, **strategy) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.parameters, same.parameters)
    assert one.to_json()["curve"] == same.to_json()["curve"] != other.to_json()["curve"]


@pytest.mark.parametrize(
    "strategy",
    [
        {},
        {"overlap": "wfbp"},
        {"compression": "top-k"},
        {"aggregation": "host"},
        {"aggregation": "sharded"},
        {"sync": {"kind": "ssp", "staleness": 0}},
        {"sync": {"kind": "local-sgd", "every": 1}},
    ],
    ids=str,
)
def test_an_update_is_there_when_all_workers_have_ended_its_step(replayed, strategy):
    """Decoding and the optimiser's step come after the collective, and are in the curve's times."""
    found = replayed(3, **{"overlap": "sequential", **strategy})
    ends = found.steps.step.cumsum(axis=0).max(axis=1)
    np.testing.assert_allclose(found.times, ends, rtol=1e-9)
    assert found.curve.points[-1].time_s == found.times[-1]

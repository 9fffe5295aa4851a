"""The digits, the small networks and the deal of samples that replays train with."""

import numpy as np
import pytest

from dpsim.disturbance import random_stream
from dpsim.scenario.replay import ReplayConfig
from dpsim.studies.replay.learning import NETWORKS, Sampler, digits

EVERY_NETWORK = pytest.mark.parametrize("name", NETWORKS)


def task(name, workers=3, batch=5):
    """Parameters of each worker's own, and a batch for each."""
    network, data = NETWORKS[name], digits()
    parameters = np.stack(
        [network.start(random_stream(0, "test", worker)) for worker in range(workers)]
    )
    chosen = Sampler(len(data.labels), workers, batch, 0).indices(
        np.arange(workers), np.zeros(workers, dtype=int)
    )
    return network, parameters, data.images[chosen], data.labels[chosen]


def test_the_digits_are_those_of_scikit_learn():
    datasets = pytest.importorskip(
        "sklearn.datasets", reason="scikit-learn is not installed: pip install -e '.[dev]'"
    )
    pixels, labels = datasets.load_digits(return_X_y=True)
    held, test = digits(), np.arange(len(labels)) % 5 == 0
    np.testing.assert_array_equal(held.images * 16, pixels[~test])
    np.testing.assert_array_equal(held.test_images * 16, pixels[test])
    np.testing.assert_array_equal(
        np.concatenate([held.labels, held.test_labels]),
        np.concatenate([labels[~test], labels[test]]),
    )


@EVERY_NETWORK
def test_gradients_are_differences_of_the_loss(name):
    network, parameters, images, labels = task(name, workers=1)
    _, (gradient,) = network.gradients(parameters, images, labels)
    for place in np.linspace(0, network.parameters - 1, 40).astype(int):
        step = np.zeros_like(parameters)
        step[0, place] = 1e-6
        ahead, behind = (
            network.gradients(parameters + sign * step, images, labels)[0][0] for sign in (1, -1)
        )
        assert gradient[place] == pytest.approx((ahead - behind) / 2e-6, rel=1e-4, abs=1e-8)


@EVERY_NETWORK
def test_workers_at_once_are_workers_one_by_one_to_the_last_bit(name):
    network, parameters, images, labels = task(name)
    _, combined = network.gradients(parameters, images, labels)
    for worker in range(len(parameters)):
        one = slice(worker, worker + 1)
        np.testing.assert_array_equal(
            combined[one], network.gradients(parameters[one], images[one], labels[one])[1]
        )


def test_an_epoch_deals_each_sample_once():
    deal = Sampler(24, workers=3, batch=2, seed=1)
    clocks = np.repeat(np.arange(8), 3)
    dealt = deal.indices(np.tile(np.arange(3), 8), clocks)
    assert (
        sorted(dealt[clocks < 4].ravel().tolist())
        == sorted(dealt[clocks >= 4].ravel().tolist())
        == list(range(24))
    )
    assert (dealt[clocks < 4] != dealt[clocks >= 4]).any()


def test_the_batches_of_all_workers_are_the_batch_of_one():
    """Also where an iteration takes more than an epoch."""
    many, one = Sampler(10, workers=4, batch=3, seed=0), Sampler(10, workers=1, batch=12, seed=0)
    for step in range(5):
        joined = many.indices(np.arange(4), np.full(4, step)).ravel()
        np.testing.assert_array_equal(
            joined, one.indices(np.zeros(1, dtype=int), np.array([step]))[0]
        )


def test_a_worker_that_keeps_its_shard_sees_all_of_it_and_nothing_else():
    deal = Sampler(24, workers=3, batch=2, seed=1, apart=True)
    dealt = deal.indices(np.full(8, 1), np.arange(8)).ravel().tolist()
    assert sorted(dealt[:8]) == sorted(dealt[8:]) == [1, 4, 7, 10, 13, 16, 19, 22]
    assert dealt[:8] != dealt[8:]


def test_every_field_has_a_default():
    assert ReplayConfig().model == "mlp"

"""Who computes on which samples of an epoch."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.base.errors import DpsimError
from dpsim.workload import Epoch
from dpsim.workload.dataset import DatasetConfig

SIZES = {"samples": st.integers(1, 200), "workers": st.integers(1, 9), "batch": st.integers(1, 9)}
PARTITIONS = st.sampled_from(["disjoint", "shuffled"])


def deal(dataset, workers, batch, rng):
    """The samples of each worker in one epoch, shape (steps, workers, batch), as a loader deals them.

    What `DatasetConfig.epoch` counts is counted on these.
    """
    steps = dataset.epoch(workers, batch).steps
    if dataset.partition == "shuffled":
        order = np.resize(rng.permutation(dataset.samples), steps * workers * batch)
        return order.reshape(steps, workers, batch)
    shards = np.array_split(np.arange(dataset.samples), workers)
    own = [np.resize(rng.permutation(shard), (steps, 1, batch)) for shard in shards]
    return np.concatenate(own, axis=1)


def counted(dataset, workers, batch):
    """How often each sample is computed on, and the epoch."""
    dealt = deal(dataset, workers, batch, np.random.default_rng(0))
    return np.bincount(dealt.ravel(), minlength=dataset.samples), dealt


def test_103_samples_on_4_workers_of_5():
    drop, pad = (DatasetConfig(samples=103, last_batch=last) for last in ("drop", "pad"))
    assert drop.epoch(4, 5) == Epoch(steps=5, distinct=100, repeated=0, dropped=3)
    assert pad.epoch(4, 5) == Epoch(steps=6, distinct=103, repeated=17, dropped=0)


@given(partition=PARTITIONS, **SIZES)
def test_dropping_counts_no_sample_twice(samples, workers, batch, partition):
    dataset = DatasetConfig(samples=samples, partition=partition, last_batch="drop")
    if samples < workers * batch:
        with pytest.raises(DpsimError, match=f"must be at least {workers * batch}"):
            dataset.epoch(workers, batch)
        return
    times, dealt = counted(dataset, workers, batch)
    epoch = dataset.epoch(workers, batch)
    assert dealt.shape == (samples // (workers * batch), workers, batch)
    assert times.max() == 1
    assert (times == 0).sum() == epoch.dropped < workers * batch
    assert epoch.distinct + epoch.dropped == samples


@given(partition=PARTITIONS, **SIZES)
def test_padding_counts_every_sample(samples, workers, batch, partition):
    dataset = DatasetConfig(samples=samples, partition=partition, last_batch="pad")
    if partition == "disjoint" and samples < workers:
        with pytest.raises(DpsimError, match=f"at least one for each of {workers} workers"):
            dataset.epoch(workers, batch)
        return
    times, dealt = counted(dataset, workers, batch)
    epoch = dataset.epoch(workers, batch)
    assert dealt.shape == (epoch.steps, workers, batch)
    assert times.min() >= 1
    assert (times - 1).sum() == epoch.repeated < workers * batch
    assert epoch.distinct + epoch.repeated == epoch.steps * workers * batch


@given(last=st.sampled_from(["drop", "pad"]), **SIZES)
def test_disjoint_workers_share_no_sample_and_differ_by_one_at_most(samples, workers, batch, last):
    dataset = DatasetConfig(samples=samples, partition="disjoint", last_batch=last)
    if samples < workers * batch:
        return
    _, dealt = counted(dataset, workers, batch)
    own = [set(dealt[:, worker].ravel().tolist()) for worker in range(workers)]
    assert sum(map(len, own)) == len(set.union(*own))
    if last == "pad":
        assert max(map(len, own)) - min(map(len, own)) <= 1


def test_a_shuffled_epoch_deals_a_worker_other_samples_a_disjoint_one_the_same():
    rng = np.random.default_rng(0)
    for partition, same in (("shuffled", False), ("disjoint", True)):
        dataset = DatasetConfig(samples=60, partition=partition)
        first, second = (set(deal(dataset, 3, 4, rng)[:, 0].ravel().tolist()) for _ in range(2))
        assert (first == second) == same

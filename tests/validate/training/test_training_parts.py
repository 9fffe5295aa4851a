"""The parts of training that need no other rank.

Shards, models, the optimiser, the server's rule, and errors.
"""

import threading

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from staleness_of_logs import clock_gaps, version_gaps

from dpsim.base.errors import DpsimError
from dpsim.strategy.sync import AspConfig, BackupConfig, BspConfig, SspConfig
from validate.training import (
    Event,
    RankRecord,
    Training,
    method_named,
    replay,
)
from validate.training.buckets import cut_by_size
from validate.training.local import Replica
from validate.training.parameter_server import ServerState
from validate.training.shard import Shard
from validate.training.task import Digits

pytestmark = pytest.mark.torch


class TestShards:
    def test_are_disjoint_equal_and_as_those_of_torchs_sampler(self):
        data = Digits(Training())
        shards = [Shard(len(data), worker, 3, 50, seed=7) for worker in range(3)]
        steps = shards[0].steps_per_epoch
        for epoch in (0, 1):
            seen = []
            for worker, shard in enumerate(shards):
                sampler = torch.utils.data.DistributedSampler(
                    data, 3, worker, shuffle=True, seed=7, drop_last=True
                )
                sampler.set_epoch(epoch)
                mine = torch.cat(
                    [shard.indices(epoch * steps + step) for step in range(steps)]
                ).tolist()
                assert mine == list(sampler)[: steps * 50]
                seen += mine
            assert len(set(seen)) == len(seen) == 3 * 50 * steps

    def test_must_be_filled(self):
        with pytest.raises(
            DpsimError, match="workers x batch must be at most the 10 samples, but got 12"
        ):
            Shard(10, 0, 3, 4, seed=0)


class TestLocalSteps:
    @pytest.mark.parametrize("model", ["cnn", "transformer"])
    def test_a_samples_gradient_does_not_depend_on_its_batch(self, model):
        data, replica = Digits(Training()), Replica(Training(model=model))
        gradients = []
        for start in (0, 4):
            replica.compute_gradient(data.images[start : start + 4], data.labels[start : start + 4])
            gradients.append(replica.gradient.clone())
        replica.compute_gradient(data.images[:8], data.labels[:8])
        torch.testing.assert_close(replica.gradient, sum(gradients) / 2, rtol=0, atol=1e-15)

    def test_the_optimiser_is_torchs(self):
        training = Training(momentum=0.9, learning_rate=0.3)
        ours, theirs, data = Replica(training), Replica(training), Digits(Training())
        sgd = torch.optim.SGD(theirs.model.parameters(), lr=0.3, momentum=0.9)
        for _ in range(4):
            for replica in (ours, theirs):
                replica.compute_gradient(data.images[:16], data.labels[:16])
            ours.update()
            sgd.step()
        torch.testing.assert_close(ours.weights, theirs.weights, rtol=0, atol=1e-15)

    @pytest.mark.parametrize("model", ["cnn", "transformer"])
    def test_one_worker_learns_to_read_digits(self, model):
        training = Training(
            model=model,
            steps=150,
            batch=32,
            learning_rate=0.1,
            momentum=0.9,
            precision="float32",
            width=16,
        )
        losses = replay(method_named("whole-batch"), [RankRecord("", 0, 1)], training).losses[0]
        assert np.mean(losses[:5]) > 2, "about ln 10: it guesses"
        assert np.mean(losses[-20:]) < 1

    def test_the_seed_leaves_the_random_stream_of_the_process_as_it_was(self):
        torch.manual_seed(1)
        before = torch.random.get_rng_state()
        Replica(Training(seed=5))
        assert torch.equal(torch.random.get_rng_state(), before)


class TestServer:
    @pytest.fixture
    def log(self):
        return []

    @pytest.fixture
    def server(self, log):
        def make(gate, workers=2, iterations=9):
            return ServerState(
                torch.zeros(1),
                workers,
                gate,
                lambda *event: log.append(event),
                lambda clock, version: clock == iterations,
                patience_s=0.05,
            )

        return make

    def test_bsp_shows_a_step_to_all_or_to_none(self, server, log):
        state = server(BspConfig(kind="bsp").gate(2))
        assert state.read(0) == state.read(1) == (0, 0)
        state.push(0, torch.ones(1))
        with pytest.raises(
            TimeoutError, match=r"worker 0 has waited 0\.05 s .* worker 1 is the slowest"
        ):
            state.read(0)
        state.push(1, torch.ones(1))
        assert state.read(0) == state.read(1) == (1, 2)
        assert log == [
            ("read", 0, 0, 0),
            ("read", 1, 0, 0),
            ("pushed", 0, 0, 0),
            ("pushed", 1, 0, 0),
            ("updated", 0, 0, 1),
            ("updated", 1, 0, 1),
            ("read", 0, 1, 1),
            ("read", 1, 1, 1),
        ]

    def test_ssp_of_0_lets_all_go_on_with_the_same_weights(self, server):
        """Also a worker whose thread comes to read when another has pushed its next change."""
        state = server(SspConfig(kind="ssp", staleness=0).gate(2))
        for _ in range(2):
            state.push(0, torch.ones(1))
            state.push(1, torch.ones(1))
        assert state.read(0)[1] == state.read(1)[1] == 4
        state.push(0, torch.ones(1))
        assert state.read(1)[1] == 4

    def test_ssp_lets_a_worker_run_ahead_so_far_and_adds_what_comes_at_once(self, server):
        state = server(SspConfig(kind="ssp", staleness=1).gate(2))
        for expected in (0, 1):
            assert state.read(0)[1] == expected
            state.push(0, torch.ones(1))
        with pytest.raises(TimeoutError):
            state.read(0)
        assert state.read(1)[1] == 0
        state.push(1, torch.ones(1))
        assert state.read(0)[1] == state.read(1)[1] == 3

    def test_asp_never_waits(self, server):
        state = server(AspConfig(kind="asp").gate(2))
        for expected in range(5):
            assert state.read(0)[1] == expected
            state.push(0, torch.ones(1))
        state.push(1, torch.ones(1))
        assert state.read(1)[1] == 6

    def test_a_waiting_worker_goes_on_when_the_slowest_is_done(self, server):
        state = server(SspConfig(kind="ssp", staleness=0).gate(2))
        state.patience_s = 10
        state.push(0, torch.ones(1))
        late = threading.Timer(0.05, state.push, (1, torch.ones(1)))
        late.start()
        assert state.read(0)[1] == 2
        late.join()

    def test_backup_drops_what_comes_after_the_update(self, server, log):
        state = server(BackupConfig(kind="backup").gate(3), workers=3)
        for worker in (2, 0, 1):
            state.push(worker, torch.full((1,), 2.0))
        assert state.read(0) == state.read(1) == state.read(2) == (1, 4)
        assert log[3:] == [
            ("pushed", 2, 0, 0),
            ("pushed", 0, 0, 0),
            ("updated", 2, 0, 1),
            ("updated", 0, 0, 1),
            ("read", 2, 1, 1),
            ("read", 0, 1, 1),
            ("pushed", 1, 0, 1),
            ("dropped", 1, 0, 1),
            ("read", 1, 1, 1),
        ]
        state.push(1, torch.ones(1))
        with pytest.raises(TimeoutError, match=r"worker 1 has waited 0\.05 s"):
            state.read(1)

    def test_a_run_that_is_over_is_read_from_no_more(self, server, log):
        state = server(AspConfig(kind="asp").gate(2), iterations=1)
        state.push(0, torch.ones(1))
        assert [event for event in log if event[0] == "read"] == [
            ("read", 0, 0, 0),
            ("read", 1, 0, 0),
        ]


def test_stalenesses_are_counted_from_the_log():
    log = [
        Event(0.0, "read", worker=0, clock=0, version=0),
        Event(0.1, "read", worker=1, clock=0, version=0),
        Event(0.2, "pushed", worker=0, clock=0, version=0),
        Event(0.2, "updated", worker=0, clock=0, version=1),
        Event(0.3, "read", worker=0, clock=1, version=1),
        Event(0.4, "pushed", worker=1, clock=0, version=1),
        Event(0.4, "updated", worker=1, clock=0, version=2),
    ]
    assert clock_gaps(log, 2) == [0, 0, 1]
    assert version_gaps(log) == [0, 1]


def test_buckets_are_closed_when_they_are_full():
    assert cut_by_size([10, 10, 10, 10, 10], first=10, cap=20) == [[0], [1, 2], [3, 4]]
    assert cut_by_size([50, 1, 30], first=10, cap=30) == [[0], [1, 2]]


def test_a_log_that_cannot_have_been_is_an_error():
    records = [RankRecord("", rank, 2) for rank in range(2)]
    records[1].log.append(Event(0.0, "updated", 0, 0, 1))
    with pytest.raises(DpsimError, match="has updated of 0 at 0"):
        replay(method_named("parameter-server"), records, Training())
    records[0].log.append(Event(0.0, "averaged", 1, 0))
    with pytest.raises(DpsimError, match="no worker can go on"):
        replay(method_named("ad-psgd"), records, Training())


@pytest.mark.parametrize(
    ("kind", "settings", "ranks", "message"),
    [
        (
            "parameter-server",
            {"servers": 3},
            3,
            "parameter-server: ranks must be at least 4, but got 3",
        ),
        ("backup", {"spare": 2}, 3, "backup: ranks must be at least 4, but got 3"),
        ("gossip", {}, 1, "gossip: ranks must be at least 2, but got 1"),
        ("ad-psgd", {}, 1, "ad-psgd: ranks must be at least 2, but got 1"),
    ],
)
def test_too_few_ranks_are_an_error(kind, settings, ranks, message):
    with pytest.raises(DpsimError, match=message):
        method_named(kind, **settings).workers(ranks)


def test_an_unknown_method_is_an_error():
    with pytest.raises(
        DpsimError,
        match=r"must be a known method of training, but got 'gossips' \(did you mean 'gossip'\?\)",
    ):
        method_named("gossips")

"""Replays a run's log in one process: which gradient was applied to which model, and when.

The only random part of a run is the order of messages, which its log records; given that order,
losses and weights are determined, and must be the same without any messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from dpsim.strategy.compression import CompressedMean
from validate.training.all_workers import AllWorkers, Replayed, mean
from validate.training.compressed import Compressed
from validate.training.gossip import HEARD, Gossip
from validate.training.learners import Learners
from validate.training.local_sgd import AVERAGED_GRADIENTS, AVERAGED_MODELS, LocalSgd
from validate.training.method import Method
from validate.training.rank_record import RankRecord
from validate.training.replay_pairs import replay_pairs
from validate.training.replay_servers import replay_servers
from validate.training.settings import Training


def replay_whole_batch(
    method: Method, records: Sequence[RankRecord], training: Training
) -> Replayed:
    """Replay one model, moved by the mean of all workers' gradients.

    Every bulk-synchronous method should equal this.
    """
    workers = AllWorkers(training, method.workers(len(records)))
    for step in range(training.steps):
        workers.learn_all(step)
        gradient = mean([replica.gradient for replica in workers.replicas])
        # All replicas move, though they stay equal: each computes the gradient of its own batch.
        for replica in workers.replicas:
            replica.gradient.copy_(gradient)
            replica.update()
    return workers.done(workers.replicas[0].weights)


def replay_compressed(
    method: Compressed, records: Sequence[RankRecord], training: Training
) -> Replayed:
    """Replay with the mean of `dpsim.strategy.compression.CompressedMean`."""
    workers = AllWorkers(training, len(records))
    elements = workers.replicas[0].weights.numel()
    exchange = CompressedMean(method.codec, len(workers), elements, training.seed)
    for step in range(training.steps):
        workers.learn_all(step)
        vectors = np.stack([replica.gradient.float().numpy() for replica in workers.replicas])
        gradient = torch.from_numpy(exchange.mean(vectors))
        for replica in workers.replicas:
            replica.gradient.copy_(gradient)
            replica.update()
    return workers.done(workers.replicas[0].weights)


def replay_local_sgd(
    method: LocalSgd, records: Sequence[RankRecord], training: Training
) -> Replayed:
    """Replay each worker alone, with averages where rank 0 logged them."""
    workers = AllWorkers(training, len(records))
    # Rank 0's log is enough: an average takes place on all ranks or on none.
    averages = {(event.what, event.clock) for event in records[0].log}
    for step in range(training.steps):
        workers.learn_all(step)
        if (AVERAGED_GRADIENTS, step) in averages:
            gradient = mean([replica.gradient for replica in workers.replicas])
            for replica in workers.replicas:
                replica.gradient.copy_(gradient)
        for replica in workers.replicas:
            replica.update()
        if (AVERAGED_MODELS, step) in averages:
            weights = mean([replica.weights for replica in workers.replicas])
            for replica in workers.replicas:
                replica.weights.copy_(weights)
    return workers.done(workers.replicas[0].weights)


def replay_gossip(method: Gossip, records: Sequence[RankRecord], training: Training) -> Replayed:
    """Replay each worker's mixing of the old models that it logged as received."""
    workers = AllWorkers(training, len(records))
    for step in range(training.steps):
        workers.learn_all(step)
        # Neighbours receive the models from before any mixing.
        models = [replica.weights.clone() for replica in workers.replicas]
        for worker, replica in enumerate(workers.replicas):
            log = records[worker].log
            heard = [event.worker for event in log if event.what == HEARD and event.clock == step]
            own_and_heard = [models[worker], *(models[other] for other in heard)]
            replica.weights.copy_(mean(own_and_heard))
            replica.update()
    return workers.done(mean([replica.weights for replica in workers.replicas]))


def replay_learners(
    method: Learners, records: Sequence[RankRecord], training: Training
) -> Replayed:
    """Replay the three equations by learner; losses are means over each rank's learners."""
    k = method.learners
    workers = AllWorkers(training, len(records) * k)
    pull = method.pull_factor(len(workers))
    average = previous = workers.replicas[0].weights.clone()
    for step in range(training.steps):
        workers.learn_all(step)
        corrections = [pull * (replica.weights - average) for replica in workers.replicas]
        for worker, correction in enumerate(corrections):
            workers.change(worker)
            workers.replicas[worker].weights.sub_(correction)
        total = torch.stack(corrections).sum(dim=0)
        # Like the run, where corrections of a step move z during the next one.
        moved = average + total + method.momentum * (average - previous)
        average, previous = moved, average
    done = workers.done(average)
    # Learners are numbered rank by rank.
    losses = np.asarray(done.losses).reshape(len(records), k, -1)
    return Replayed(losses.mean(axis=1).tolist(), done.weights)


Replay = Callable[[Any, Sequence[RankRecord], Training], Replayed]

# All others are bulk-synchronous: they should equal one process on whole batches.
_REPLAYS: Mapping[str, Replay] = {
    "parameter-server": replay_servers,
    "backup": replay_servers,
    "local-sgd": replay_local_sgd,
    "gossip": replay_gossip,
    "ad-psgd": replay_pairs,
    "sma": replay_learners,
    "compressed": replay_compressed,
}


def replay(method: Method, records: Sequence[RankRecord], training: Training) -> Replayed:
    """Return the expected result of the run of ``records``, one per rank, in order.

    Raises DpsimError for an impossible log.
    """
    return _REPLAYS.get(method.kind, replay_whole_batch)(method, records, training)

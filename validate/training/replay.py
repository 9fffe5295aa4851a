"""Replays a run's log in one process: which gradient was applied to which model, and when.

The only random part of a run is the order of messages, which its log records; given that order,
losses and weights are determined, and must be the same without any messages.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpsim.base.arrays import RealArray
from dpsim.base.errors import DpsimError
from dpsim.strategy.compression import CompressedMean
from validate.training.compressed import Compressed
from validate.training.gossip import RECEIVED, Gossip
from validate.training.learners import Learners
from validate.training.local import Replica
from validate.training.local_sgd import AVERAGED_GRADIENTS, AVERAGED_MODELS, LocalSgd
from validate.training.method import Method
from validate.training.pairs import AVERAGED, AdPsgd
from validate.training.parameter_server import ParameterServer
from validate.training.rank_record import READ, UPDATED, Event, RankRecord
from validate.training.settings import Training
from validate.training.shard import Shard
from validate.training.task import Digits


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """The expected result of a run: losses by worker and iteration, and the final weights, flat."""

    losses: list[list[float]]
    weights: RealArray


class AllWorkers:
    """All workers in one process: the same local steps as in the run, with nothing sent anywhere.

    Each has a replica and a shard; all replicas start with rank 0's weights.
    """

    def __init__(self, training: Training, workers: int) -> None:
        self.training = training
        self.digits = Digits(training, "cpu")
        self.replicas = [Replica(training, self.digits) for _ in range(workers)]
        self.shards = [
            Shard(len(self.digits), each, workers, training.batch, training.seed)
            for each in range(workers)
        ]
        self.losses: list[list[float]] = [[] for _ in range(workers)]

    def __len__(self) -> int:
        return len(self.replicas)

    def compute_gradient(self, worker: int, step: int) -> None:
        """Run forward and backward of one worker on its batch of ``step``.

        The worker's replica keeps the weights that it has.
        """
        indices = self.shards[worker].indices(step)
        loss = self.replicas[worker].compute_gradient(*self.digits.batch(indices))
        self.losses[worker].append(float(loss))

    def learn_all(self, step: int) -> None:
        """Run forward and backward of all workers."""
        for worker in range(len(self)):
            self.compute_gradient(worker, step)

    def give_all(self, gradient: Tensor) -> None:
        """Replace the gradient of every worker."""
        for replica in self.replicas:
            replica.gradient.copy_(gradient)

    def update_all(self) -> None:
        """Update every worker's replica by its own gradient."""
        for replica in self.replicas:
            replica.update()

    def change(self, worker: int) -> Tensor:
        """Update the worker's replica by SGD, and return the change of its weights."""
        replica = self.replicas[worker]
        # A clone, since SGD updates the weights in place.
        before = replica.weights.clone()
        replica.update()
        return replica.weights - before

    def done(self, weights: Tensor) -> Replayed:
        """Return the losses, with ``weights`` as the final ones."""
        return Replayed(self.losses, weights.detach().numpy().copy())


def mean(vectors: list[Tensor]) -> Tensor:
    """Return the mean of vectors, added up in order."""
    # A sum has no defined order in torch, and rounding depends on it; a copy, since += is in place.
    total = vectors[0].clone()
    for vector in vectors[1:]:
        total += vector
    return total / len(vectors)


def replay_pairs(method: AdPsgd, records: Sequence[RankRecord], training: Training) -> Replayed:
    """Replay asynchronous gossip: when each worker read its model, averaged, and updated.

    A meeting takes place when both workers have reached it.
    """
    pairs = _Pairs(AllWorkers(training, len(records)), records)
    while any(pairs.logs):
        # Replay an event of any worker that can continue, since events of workers that have not met
        # since are independent, so their order does not matter.
        if not any(pairs.advance(worker) for worker in range(len(records))):
            raise DpsimError("the logs of a run must fit each other, but no worker can go on")
    return pairs.workers.done(mean(pairs.shared))


class _Pairs:
    """Each worker's model, the rest of its log, and the change of its next update."""

    def __init__(self, workers: AllWorkers, records: Sequence[RankRecord]) -> None:
        self.workers = workers
        self.logs = [
            deque(e for e in record.log if e.what in (READ, AVERAGED, UPDATED))
            for record in records
        ]
        self.shared = [replica.weights.clone() for replica in workers.replicas]
        # These are placeholders, since each update follows a read, which sets its change.
        self._changes: list[Tensor] = [weights.clone() for weights in self.shared]

    def advance(self, worker: int) -> bool:
        """Replay the next event of a worker, and return whether it was possible."""
        log = self.logs[worker]
        if not log:
            return False
        event = log[0]
        if event.what == AVERAGED:
            return self._meet(worker, event)
        log.popleft()
        if event.what == READ:
            self.workers.replicas[worker].weights.copy_(self.shared[worker])
            self.workers.compute_gradient(worker, event.clock)
            self._changes[worker] = self.workers.change(worker)
        else:
            self.shared[worker] += self._changes[worker]
        return True

    def _meet(self, worker: int, event: Event) -> bool:
        """Replace both models by the mean, if the other worker has reached the same meeting."""
        other = event.worker
        if not self.logs[other]:
            return False
        theirs = self.logs[other][0]
        if (theirs.what, theirs.worker, theirs.clock) != (AVERAGED, worker, event.clock):
            return False
        self.logs[worker].popleft()
        self.logs[other].popleft()
        both = (self.shared[other] + self.shared[worker]) / 2
        # Two vectors: each is then updated in place.
        self.shared[worker] = both
        self.shared[other] = both.clone()
        return True


def replay_servers(
    method: ParameterServer, records: Sequence[RankRecord], training: Training
) -> Replayed:
    """Replay every server's log, which worker read and which update was applied when, in turns.

    An update can be applied once all shares were read.
    """
    workers = AllWorkers(training, method.workers(len(records)))
    replayed = _Servers(method, workers)
    logs = []
    for record in records[len(workers) :]:
        logs.append(deque(event for event in record.log if event.what in (READ, UPDATED)))
    while any(logs):
        # Servers' clocks are not comparable, so the events themselves determine the order.
        events = sum(replayed.advance(server, log) for server, log in enumerate(logs))
        if not events:
            stuck = next(log[0] for log in logs if log)
            raise DpsimError(
                f"a log must hold what can follow each other, but has {stuck.what} of "
                f"{stuck.worker} at {stuck.clock}"
            )
    return workers.done(replayed.weights)


class _Servers:
    """The weights of all servers, and the changes that workers have pushed."""

    def __init__(self, method: ParameterServer, workers: AllWorkers) -> None:
        self.workers = workers
        self.servers = method.servers
        self.scale = method.scale(len(workers))
        self.weights = workers.replicas[0].weights.clone()
        # Views: adding to a share adds to the weights.
        self._shares = self.weights.tensor_split(self.servers)
        self._reads: Counter[tuple[int, int]] = Counter()
        self._changes: dict[tuple[int, int], tuple[Tensor, ...]] = {}

    def advance(self, server: int, log: deque[Event]) -> int:
        """Replay one server's log as far as possible; return the number of events."""
        done = 0
        while log:
            event = log[0]
            iteration = event.worker, event.clock
            if event.what == READ:
                self._read(server, *iteration)
            elif iteration in self._changes:
                change = self._changes[iteration][server]
                self._shares[server].add_(change, alpha=self.scale)
            else:
                break
            log.popleft()
            done += 1
        return done

    def _read(self, server: int, worker: int, clock: int) -> None:
        """Copy a share to a worker; with its last share the worker computes."""
        shares = self.workers.replicas[worker].weights.tensor_split(self.servers)
        shares[server].copy_(self._shares[server])
        self._reads[worker, clock] += 1
        # Only now, since servers let a worker read at different points of their logs.
        if self._reads[worker, clock] == self.servers:
            self.workers.compute_gradient(worker, clock)
            change = self.workers.change(worker)
            self._changes[worker, clock] = change.tensor_split(self.servers)


def replay_whole_batch(
    method: Method, records: Sequence[RankRecord], training: Training
) -> Replayed:
    """Replay one model, moved by the mean of all workers' gradients.

    Every bulk-synchronous method should equal this.
    """
    workers = AllWorkers(training, method.workers(len(records)))
    for step in range(training.steps):
        workers.learn_all(step)
        workers.give_all(mean([replica.gradient for replica in workers.replicas]))
        # All replicas move, though they stay equal: each computes the gradient of its own batch.
        workers.update_all()
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
        workers.give_all(torch.from_numpy(exchange.mean(vectors)))
        workers.update_all()
    return workers.done(workers.replicas[0].weights)


def replay_local_sgd(
    method: LocalSgd, records: Sequence[RankRecord], training: Training
) -> Replayed:
    """Replay each worker alone, with averages where rank 0 logged them."""
    workers = AllWorkers(training, len(records))
    # Read rank 0's log alone, since an average takes place on all ranks or on none.
    averages = {(event.what, event.clock) for event in records[0].log}
    for step in range(training.steps):
        workers.learn_all(step)
        if (AVERAGED_GRADIENTS, step) in averages:
            workers.give_all(mean([replica.gradient for replica in workers.replicas]))
        workers.update_all()
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
            neighbours = [
                event.worker for event in log if event.what == RECEIVED and event.clock == step
            ]
            own_and_received = [models[worker], *(models[other] for other in neighbours)]
            replica.weights.copy_(mean(own_and_received))
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

# Every other method is bulk-synchronous, and should equal one process on whole batches.
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

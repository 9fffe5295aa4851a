"""Replays asynchronous gossip.

Each worker's log says when it read its model, averaged with whom, and applied which gradient.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from torch import Tensor

from dpsim.base.errors import DpsimError
from validate.training.all_workers import AllWorkers, Replayed, mean
from validate.training.pairs import AVERAGED, READ, UPDATED, AdPsgd
from validate.training.rank_record import Event, RankRecord
from validate.training.settings import Training


def replay_pairs(method: AdPsgd, records: Sequence[RankRecord], training: Training) -> Replayed:
    """Replay every worker's log; a meeting takes place when both workers have reached it."""
    pairs = _Pairs(AllWorkers(training, len(records)), records)
    while any(pairs.logs):
        # One event at a time, of any worker that can continue: events of workers that have not met
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
        # Placeholders: no update comes before a read, which sets its change.
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

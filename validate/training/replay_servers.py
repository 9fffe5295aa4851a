"""Replays parameter servers.

Each server's log says which worker read when, and which update was applied when.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence

from torch import Tensor

from dpsim.base.errors import DpsimError
from validate.training.all_workers import AllWorkers, Replayed
from validate.training.parameter_server import READ, UPDATED, ParameterServer
from validate.training.rank_record import Event, RankRecord
from validate.training.settings import Training


def replay_servers(
    method: ParameterServer, records: Sequence[RankRecord], training: Training
) -> Replayed:
    """Replay every server's log as far as possible, in turns.

    An update can be applied once all shares were read.
    """
    workers = AllWorkers(training, method.workers(len(records)))
    replayed = _Servers(method, workers)
    logs = []
    for record in records[len(workers) :]:
        logs.append(deque(event for event in record.log if event.what in (READ, UPDATED)))
    while any(logs):
        # Servers' clocks are not comparable: the order follows from the events themselves.
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

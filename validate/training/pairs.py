"""Asynchronous gossip, AD-PSGD: pairs of workers average models without waiting for steps.

Workers of even rank are active: each iteration they draw a passive worker, of odd rank, and both
replace their models by the mean, atomically. Since active workers never wait for active ones, there
is no deadlock. A passive worker computes meanwhile: its gradient is computed from the model read
before, and applied to the current one. Source: Lian et al., "Asynchronous decentralized parallel
stochastic gradient descent", ICML 2018 (algorithm 1, bipartite graph).
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from validate.training.gossip import consensus
from validate.training.method import Method
from validate.training.rank_record import READ, UPDATED
from validate.training.worker import Worker

AVERAGED = "averaged"


class AdPsgd(Method):
    """Pairs of workers average their models, and none waits for another's step."""

    via_host_memory: ClassVar[bool] = True
    kind: ClassVar[str] = "ad-psgd"
    least_ranks: ClassVar[int] = 2

    def run(self, worker: Worker) -> None:
        """Iterate, then take the mean of all workers' models.

        Passive workers have one more thread for each active one.
        """
        shared = SharedModel(worker)
        # Active workers contact only passive ones (AD-PSGD's bipartite graph): a worker that waits
        # for an answer is never contacted, so no cycle of waiting workers can form.
        if worker.rank % 2 == 0:
            partners = drawn_partners(
                worker.training.seed, worker.rank, worker.workers, worker.training.steps
            )
            for step in worker.steps():
                shared.compute_gradient(step)
                with worker.part("communication"):
                    shared.average_with(partners[step], step)
                shared.update(step)
        else:
            with ThreadPoolExecutor(worker.workers) as threads:
                serving = [
                    threads.submit(shared.serve, active) for active in range(0, worker.workers, 2)
                ]
                for step in worker.steps():
                    shared.compute_gradient(step)
                    shared.update(step)
                for served in serving:
                    served.result()
        worker.replica.weights.copy_(shared.weights)
        consensus(worker, worker.replica.weights)


def drawn_partners(seed: int, active: int, ranks: int, steps: int) -> list[int]:
    """Return the passive worker that ``active`` exchanges with in each step.

    Both know it, so that neither waits for a message that never comes.
    """
    # With an odd number of ranks the last one is active, too.
    passive = ranks // 2
    generator = np.random.default_rng([seed, active])
    return [2 * int(drawn) + 1 for drawn in generator.integers(passive, size=steps)]


class SharedModel:
    """A worker's model in host memory, which its threads change one at a time.

    The replica holds the weights last read from it.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.weights = worker.replica.weights.to("cpu", copy=True)
        self._lock = threading.Lock()

    def compute_gradient(self, step: int) -> None:
        """Compute the gradient at the current model."""
        with self._lock:
            self.worker.replica.weights.copy_(self.weights)
            self.worker.note(READ, self.worker.rank, step)
        # Hold no lock, since other workers average with the model while its gradient is computed.
        self.worker.compute_gradient(step)

    def update(self, step: int) -> None:
        """Compute SGD's change from the weights last read, and apply it to the current model."""
        replica = self.worker.replica
        before = replica.weights.clone()
        self.worker.update()
        with self._lock:
            self.weights += (replica.weights - before).cpu()
            self.worker.note(UPDATED, self.worker.rank, step)

    def average_with(self, passive: int, step: int) -> None:
        """Send the model and continue with the returned mean: the active side."""
        group, mean = self.worker.host_group, torch.empty_like(self.weights)
        reply = dist.irecv(mean, passive, group)
        dist.send(self.weights, passive, group)
        reply.wait()
        # No lock is needed, since an active worker has only this thread.
        self.weights.copy_(mean)
        self.worker.note(AVERAGED, passive, step)

    def serve(self, active: int) -> None:
        """Average with one active worker whenever it sends its model: the passive side."""
        training, group = self.worker.training, self.worker.host_group
        # The same draws as the active worker's, so this side knows when to expect a message.
        partners = drawn_partners(training.seed, active, self.worker.workers, training.steps)
        for step, passive in enumerate(partners):
            if passive != self.worker.rank:
                continue
            theirs = torch.empty_like(self.weights)
            dist.recv(theirs, active, group)
            dist.send(self._mean_with(theirs, active, step), active, group)

    def _mean_with(self, theirs: Tensor, active: int, step: int) -> Tensor:
        with self._lock:
            self.weights.copy_((self.weights + theirs) / 2)
            self.worker.note(AVERAGED, active, step)
            # Return a copy, since the weights may change while they are sent without the lock.
            return self.weights.clone()

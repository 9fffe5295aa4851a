"""Asynchronous gossip, AD-PSGD: pairs of workers average models, nobody waits for another's step.

Workers of even rank are active: each iteration they draw a passive worker, of odd rank, and both
replace their models by the mean, in one indivisible act. Since active workers never wait for active
ones, there is no deadlock. A passive worker computes meanwhile: its gradient belongs to the model
that it had read before, and is applied to the one it has by then. Source: Lian et al.,
"Asynchronous decentralized parallel stochastic gradient descent", ICML 2018 (algorithm 1, bipartite
graph).
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, Literal

import numpy as np
import torch
import torch.distributed as dist
from pydantic import Field
from torch import Tensor

from validate.training.gossip import consensus
from validate.training.method import Method
from validate.training.worker import Worker

READ, AVERAGED, UPDATED = "read", "averaged", "updated"


class Pairs(Method):
    """Pairs of workers average their models, and none waits for another's step."""

    by_host: ClassVar[bool] = True
    kind: Literal["ad-psgd"] = Field(
        default="ad-psgd",
        description="Pairs of workers average models; none waits for another's step.",
    )

    def workers(self, ranks: int) -> int:
        """All of at least 2."""
        self._at_least(ranks, 2)
        return ranks

    def run(self, worker: Worker) -> None:
        """Iterate, then take the mean of all.

        Passive workers have one thread more for each active one.
        """
        shared = SharedModel(worker)
        # Active workers ask passive ones only (AD-PSGD's bipartite graph): nobody who waits for an
        # answer is ever asked, so that there is no circle of workers waiting for each other.
        if worker.rank % 2 == 0:
            partners = drawn_partners(
                worker.training.seed, worker.rank, worker.workers, worker.training.steps
            )
            for step in worker.steps():
                shared.learn(step)
                with worker.part("communication"):
                    shared.average_with(partners[step], step)
                shared.update(step)
        else:
            with ThreadPoolExecutor(worker.workers) as threads:
                answers = [
                    threads.submit(shared.answer, active) for active in range(0, worker.workers, 2)
                ]
                for step in worker.steps():
                    shared.learn(step)
                    shared.update(step)
                for answer in answers:
                    answer.result()
        worker.replica.weights.copy_(shared.weights)
        consensus(worker, worker.replica.weights)


def drawn_partners(seed: int, active: int, ranks: int, steps: int) -> list[int]:
    """The passive worker that ``active`` meets in each step.

    It is known to both, so that nobody waits for a call that never comes.
    """
    # Of an odd number of ranks the last one is active, too.
    passive = ranks // 2
    generator = np.random.default_rng([seed, active])
    return [2 * int(drawn) + 1 for drawn in generator.integers(passive, size=steps)]


class SharedModel:
    """A worker's model in host memory, of which its threads change one thing at a time.

    The replica holds what was read of it.
    """

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.weights = worker.replica.weights.to("cpu", copy=True)
        self._one_at_a_time = threading.Lock()

    def learn(self, step: int) -> None:
        """The gradient at the model as it is now."""
        with self._one_at_a_time:
            self.worker.replica.weights.copy_(self.weights)
            self.worker.note(READ, self.worker.rank, step)
        # Without the lock: others average with the model while its gradient is computed.
        self.worker.learn(step)

    def update(self, step: int) -> None:
        """The change that SGD makes to what was read is made to the model as it is by now."""
        replica = self.worker.replica
        before = replica.weights.clone()
        self.worker.update()
        with self._one_at_a_time:
            self.weights += (replica.weights - before).cpu()
            self.worker.note(UPDATED, self.worker.rank, step)

    def average_with(self, passive: int, step: int) -> None:
        """The active side: send the model, and go on with the mean that comes back."""
        group, mean = self.worker.host_group, torch.empty_like(self.weights)
        answer = dist.irecv(mean, passive, group)
        dist.send(self.weights, passive, group)
        answer.wait()
        # Without the lock: an active worker has no thread but this one.
        self.weights.copy_(mean)
        self.worker.note(AVERAGED, passive, step)

    def answer(self, active: int) -> None:
        """The passive side, for one active worker: average whenever that one calls."""
        training, group = self.worker.training, self.worker.host_group
        # Drawn again, as the active worker has drawn them: this side knows when it is called.
        partners = drawn_partners(training.seed, active, self.worker.workers, training.steps)
        for step, passive in enumerate(partners):
            if passive != self.worker.rank:
                continue
            theirs = torch.empty_like(self.weights)
            dist.recv(theirs, active, group)
            dist.send(self._mean_with(theirs, active, step), active, group)

    def _mean_with(self, theirs: Tensor, active: int, step: int) -> Tensor:
        with self._one_at_a_time:
            self.weights.copy_((self.weights + theirs) / 2)
            self.worker.note(AVERAGED, active, step)
            # What is sent must not change on its way, and the lock is not held for so long.
            return self.weights.clone()

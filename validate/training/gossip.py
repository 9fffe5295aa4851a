"""Gossip, D-PSGD.

In every step each worker averages its model with its neighbours' and then moves by its own
gradient.

w_i = sum over j of W[i, j] w_j - rate x gradient of i at the old w_i: models travel while gradients
are computed. The graphs are dpsim's own. Models differ until the end, when all take the mean of
all. Source: Lian et al., "Can decentralized algorithms outperform centralized algorithms?", NeurIPS
2017.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.distributed as dist
from pydantic import Field
from torch import Tensor

from dpsim.collectives import Schedule, gossip_turns
from validate.training.method import Method
from validate.training.worker import Worker

HEARD, CONSENSUS = "heard", "consensus"


class Gossip(Method):
    """Each worker averages its model with a few neighbours in every step."""

    by_host: ClassVar[bool] = True
    kind: Literal["gossip"] = Field(
        default="gossip",
        description="Each worker averages its model with a few neighbours' in each step.",
    )
    graph: Literal["ring", "exponential", "random-pairs", "torus"] = Field(
        default="ring", description="Who is whose neighbour."
    )

    def workers(self, ranks: int) -> int:
        """All of at least 2."""
        self._at_least(ranks, 2)
        return ranks

    @property
    def hides(self) -> bool:
        """What goes beside passes is not timed."""
        return True

    def run(self, worker: Worker) -> None:
        """Models set out while the gradient is computed; once mixed, they move by it."""
        # Drawn from the seed by every worker alike: nobody need say whom it meets.
        turns = gossip_turns(self.graph, worker.workers, worker.training.seed)
        for step in worker.steps():
            turn = _Turn(worker, turns[step % len(turns)])
            worker.learn(step)
            with worker.part("communication"):
                worker.replica.weights.copy_(turn.mean())
            worker.update()
            for neighbour in turn.heard:
                worker.note(HEARD, neighbour, step)
        consensus(worker, worker.replica.weights)


@dataclass(slots=True, init=False, eq=False)
class _Turn:
    """One worker's part of a turn, by way of the host.

    Its model is on its way to some, those of ``heard`` are on their way to it.
    """

    heard: list[int]
    models: list[Tensor]
    works: list[Any]

    def __init__(self, worker: Worker, schedule: Schedule) -> None:
        (edges,) = schedule.each_round()
        self.heard = [int(source) for source in edges.source[edges.destination == worker.rank]]
        # A copy, since the replica may move while its model is still on the way.
        own = worker.replica.weights.to("cpu", copy=True)
        self.models = [own, *(torch.empty_like(own) for _ in self.heard)]
        group = worker.host_group
        # Receives before sends: gloo sends at once to whoever is known to wait.
        self.works = [
            dist.irecv(model, source, group)
            for source, model in zip(self.heard, self.models[1:], strict=True)
        ]
        listeners = edges.destination[edges.source == worker.rank]
        self.works += [dist.isend(own, int(to), group) for to in listeners]

    def mean(self) -> Tensor:
        """The mean of the worker's own model and those that it has heard, when they are here."""
        for work in self.works:
            work.wait()
        return torch.stack(self.models).mean(dim=0)


def consensus(worker: Worker, weights: Tensor) -> None:
    """Every worker takes the mean of all workers' ``weights``.

    Replicas that gossiped agree only then.
    """
    # Summed, then divided: gloo has no mean.
    dist.all_reduce(weights, group=worker.world.group)
    weights /= worker.workers
    worker.note(CONSENSUS, worker.rank, worker.training.steps)

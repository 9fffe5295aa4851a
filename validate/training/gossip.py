"""Gossip, D-PSGD.

In every step each worker averages its model with its neighbours' and then applies its own gradient:

w_i = sum over j of W[i, j] w_j - rate x gradient of i at the old w_i

Models are sent while gradients are computed. The graphs are dpsim's own. Models differ until the
end, when all take the mean. Source: Lian et al., "Can decentralized algorithms outperform
centralized algorithms?", NeurIPS 2017.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.distributed as dist
from pydantic import Field
from torch import Tensor

from dpsim.collectives import Schedule, gossip_turns
from validate.training.method import Method
from validate.training.worker import Worker

RECEIVED, CONSENSUS = "received", "consensus"


class Gossip(Method):
    """Each worker averages its model with a few neighbours in every step."""

    via_host_memory: ClassVar[bool] = True
    kind: ClassVar[str] = "gossip"
    least_ranks: ClassVar[int] = 2
    overlaps_communication: ClassVar[bool] = True
    graph: Literal["ring", "exponential", "random-pairs", "torus"] = Field(
        default="ring", description="Graph of neighbours."
    )

    def run(self, worker: Worker) -> None:
        """Train; models are sent while gradients are computed, then mixed and updated."""
        # Every worker draws the same turns from the seed, so partners need no message.
        turns = gossip_turns(self.graph, worker.workers, worker.training.seed)
        for step in worker.steps():
            turn = _Turn(worker, turns[step % len(turns)])
            worker.compute_gradient(step)
            with worker.part("communication"):
                worker.replica.weights.copy_(turn.mean())
            worker.update()
            for neighbour in turn.neighbours:
                worker.note(RECEIVED, neighbour, step)
        consensus(worker, worker.replica.weights)


class _Turn:
    """One worker's part of a turn, through host memory.

    It sends its model to some workers and receives its ``neighbours``' models.
    """

    def __init__(self, worker: Worker, schedule: Schedule) -> None:
        (edges,) = schedule.each_round()
        self.neighbours = [int(source) for source in edges.source[edges.destination == worker.rank]]
        # A copy, since the replica may change while its model is being sent.
        weights = worker.replica.weights.to("cpu", copy=True)
        self.models = [weights, *(torch.empty_like(weights) for _ in self.neighbours)]
        group = worker.host_group
        # Receives before sends: gloo sends at once to a rank that is known to wait.
        self.works = [
            dist.irecv(model, source, group)
            for source, model in zip(self.neighbours, self.models[1:], strict=True)
        ]
        listeners = edges.destination[edges.source == worker.rank]
        self.works += [dist.isend(weights, int(to), group) for to in listeners]

    def mean(self) -> Tensor:
        """Wait for the models received, and return their mean with the worker's own."""
        for work in self.works:
            work.wait()
        return torch.stack(self.models).mean(dim=0)


def consensus(worker: Worker, weights: Tensor) -> None:
    """Replace every worker's ``weights`` by the mean over all workers.

    Only then do replicas agree after gossip.
    """
    # Summed, then divided: gloo has no mean.
    dist.all_reduce(weights, group=worker.world.group)
    weights /= worker.workers
    worker.note(CONSENSUS, worker.rank, worker.training.steps)

"""Backup workers: the first m changes of an update count, the b slowest are dropped.

A worker whose change was dropped continues from the newest weights, so that no worker waits for the
b slowest. The run ends when the number of updates equals the number of steps. The last rank is the
server. Source: Chen et al., "Revisiting distributed synchronous SGD", ICLR workshop 2016.
"""

from __future__ import annotations

from itertools import count
from typing import ClassVar

import torch
import torch.distributed as dist
from pydantic import Field, NonNegativeInt
from torch import Tensor

from dpsim.strategy.sync import BackupConfig
from validate.ranks.gatekeeper import serve_each
from validate.training.method import Method
from validate.training.parameter_server import ServerState
from validate.training.worker import Worker


class Backup(Method):
    """Bulk-synchronous on a parameter server, without waiting for the slowest."""

    via_host_memory: ClassVar[bool] = True
    kind: ClassVar[str] = "backup"
    spare: NonNegativeInt = Field(
        default=1, description="b: number of workers that a step does not wait for."
    )

    def workers(self, ranks: int) -> int:
        """Return all ranks but the server; at least one of them is not spare."""
        self._at_least(ranks, self.spare + 2)
        return ranks - 1

    @property
    def servers(self) -> int:
        return 1

    def scale(self, workers: int) -> float:
        """Return the factor on a change that counts: 1 / m."""
        return 1.0 / (workers - self.spare)

    def run(self, worker: Worker) -> None:
        """Work or serve; then the server broadcasts the weights to all ranks."""
        weights = worker.replica.weights.to("cpu", copy=True)
        if worker.rank < worker.workers:
            work(worker, weights)
        else:
            steps = worker.training.steps
            state = ServerState(
                weights,
                worker.workers,
                BackupConfig(kind="backup", backups=self.spare).gate(worker.workers),
                worker.note,
                lambda clock, version: version == steps,
                self.scale(worker.workers),
                worker.world.timeout,
            )
            serve_each(worker.workers, lambda client: serve(worker, state, client))
        dist.broadcast(weights, worker.workers, worker.host_group)
        worker.replica.weights.copy_(weights)


def work(worker: Worker, weights: Tensor) -> None:
    """Read, learn and push until the server says that all updates are done.

    A message ends with the number of its version.
    """
    # Weights and version are one message, so that they always belong together.
    server, message = worker.workers, torch.cat([weights, weights.new_zeros(1)])
    dist.recv(message, server, worker.host_group)
    for iteration in count():
        if int(message[-1]) == worker.training.steps:
            return
        with worker.timed_step():
            worker.replica.weights.copy_(message[:-1])
            worker.compute_gradient(iteration)
            worker.update()
            with worker.part("communication"):
                # Copied before the receive is posted, which writes into the same message.
                change = worker.replica.weights.cpu() - message[:-1]
                arriving = dist.irecv(message, server, worker.host_group)
                dist.send(change, server, worker.host_group)
                arriving.wait()


def serve(worker: Worker, state: ServerState, client: int) -> None:
    """Serve the worker ``client`` until all updates are done."""
    change = torch.empty_like(state.weights)
    while True:
        version, weights = state.read(client)
        dist.send(torch.cat([weights, weights.new_tensor([version])]), client, worker.host_group)
        if version == worker.training.steps:
            return
        dist.recv(change, client, worker.host_group)
        # Clone the change, since the state may hold it for a quorum while the next one arrives.
        state.push(client, change.clone())

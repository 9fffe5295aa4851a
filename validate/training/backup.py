"""Backup workers.

The first m changes of a step count, and those of the b slowest workers come too late and are
dropped.

A worker whose change was dropped goes on with the step that the others are at, so that nobody ever
waits for the b slowest. The last rank is the server. Source: Chen et al., "Revisiting distributed
synchronous SGD", ICLR workshop 2016.
"""

from __future__ import annotations

import threading
from typing import Literal

import torch
import torch.distributed as dist
from pydantic import Field, NonNegativeInt
from torch import Tensor

from validate.training.method import Method
from validate.training.server_state import DROPPED, READ, UPDATED, Note, serve_each
from validate.training.worker import Worker


class Backup(Method):
    """Bulk-synchronous on a parameter server, without waiting for the slowest."""

    kind: Literal["backup"] = Field(
        default="backup",
        description="A step waits for the fastest workers only; the last rank serves.",
    )
    spare: NonNegativeInt = Field(
        default=1, description="Workers that a step does not wait for, b."
    )

    def workers(self, ranks: int) -> int:
        """All but the server; at least one is not spare."""
        self._at_least(ranks, self.spare + 2)
        return ranks - 1

    @property
    def servers(self) -> int:
        """One server."""
        return 1

    def scale(self, workers: int) -> float:
        """What a change that counts is multiplied by: 1 / m."""
        return 1.0 / (workers - self.spare)

    def run(self, worker: Worker) -> None:
        """Work or serve; then the server tells all ranks the weights."""
        weights = worker.replica.weights.to("cpu", copy=True)
        if worker.rank < worker.workers:
            work(worker, weights)
        else:
            needed, steps = worker.workers - self.spare, worker.training.steps
            state = BackupState(weights, needed, steps, worker.note, worker.world.timeout)
            serve_each(worker.workers, lambda client: serve(worker, state, client))
        dist.broadcast(weights, worker.workers, worker.host_group)
        worker.replica.weights.copy_(weights)


class BackupState:
    """Weights that move when ``needed`` changes of their step are there, ``steps`` times; called
    from a thread per worker.
    """

    def __init__(
        self, weights: Tensor, needed: int, steps: int, note: Note, patience_s: float
    ) -> None:
        self.weights, self.needed, self.steps, self.patience_s, self._note = (
            weights,
            needed,
            steps,
            patience_s,
            note,
        )
        self.step = 0
        self._here: list[tuple[int, Tensor]] = []
        self._moved = threading.Condition()

    def read(self, worker: int, after: int) -> tuple[int, Tensor]:
        """The first open step after ``after``, ``steps`` at the end, and a copy of its weights.

        TimeoutError where none opens.
        """
        with self._moved:
            if not self._moved.wait_for(lambda: self.step > after, self.patience_s):
                lacking = f"{self.needed} changes in step {self.step}"
                raise TimeoutError(
                    f"worker {worker} has waited {self.patience_s:g} s for {lacking}"
                )
            if self.step < self.steps:
                self._note(READ, worker, self.step, self.needed * self.step)
            return self.step, self.weights.clone()

    def push(self, worker: int, step: int, change: Tensor) -> None:
        """Count the change if its step is still open; the last one needed moves the weights and
        opens the next step.
        """
        with self._moved:
            if step < self.step:
                self._note(DROPPED, worker, step, self.needed * self.step)
                return
            self._here.append((worker, change))
            if len(self._here) == self.needed:
                self._move()

    def _move(self) -> None:
        for number, (worker, change) in enumerate(self._here, 1):
            self.weights.add_(change, alpha=1.0 / self.needed)
            self._note(UPDATED, worker, self.step, self.needed * self.step + number)
        self.step, self._here = self.step + 1, []
        self._moved.notify_all()


def work(worker: Worker, weights: Tensor) -> None:
    """Read, learn, push, until the server says that all steps are done; a message ends with the
    number of its step.
    """
    server, message = worker.workers, torch.cat([weights, weights.new_zeros(1)])
    dist.recv(message, server, worker.host_group)
    while (step := int(message[-1])) < worker.training.steps:
        with worker.timed_step():
            worker.replica.weights.copy_(message[:-1])
            worker.learn(step)
            worker.update()
            with worker.part("communication"):
                change = worker.replica.weights.cpu() - message[:-1]
                arriving = dist.irecv(message, server, worker.host_group)
                dist.send(change, server, worker.host_group)
                arriving.wait()


def serve(worker: Worker, state: BackupState, client: int) -> None:
    """Serve the worker ``client`` until all steps are done."""
    step, change = -1, torch.empty_like(state.weights)
    while step < worker.training.steps:
        step, weights = state.read(client, step)
        dist.send(torch.cat([weights, weights.new_tensor([step])]), client, worker.host_group)
        if step < worker.training.steps:
            dist.recv(change, client, worker.host_group)
            state.push(client, step, change.clone())

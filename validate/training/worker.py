"""One rank of a run: its replica, its shard of the data, its stopwatch and its log."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch.distributed as dist
from torch import Tensor

from validate.ranks.processes import World
from validate.training.local import Between, Replica
from validate.training.rank_record import Event, RankRecord
from validate.training.settings import Training
from validate.training.shard import Shard
from validate.training.task import Digits, Forward, Task

_PARTS = ("compute", "communication", "update")  # parts of every step, even if they take no time


class Worker:
    """One rank of ``world``; ranks from ``workers`` on have no shard, since they only serve.

    ``host_group`` carries tensors in host memory, for methods ``via_host_memory``. Replicas start
    with different weights on each rank: `replicate` makes them equal. ``losses`` are those of the
    iterations so far.
    """

    def __init__(
        self,
        training: Training,
        world: World,
        workers: int,
        method: str,
        task: Task | None = None,
        *,
        flat: bool = True,
        divides: bool = False,
        via_host_memory: bool = False,
    ) -> None:
        self.training = training
        self.task = task or Digits(training, world.device)
        self.world = world
        self.rank = world.rank
        self.workers = workers
        seed = training.seed + world.rank
        self.replica = Replica(training, self.task, seed, flat=flat, divides=divides)
        self.record = RankRecord(method, world.rank, world.size)
        # NCCL carries only tensors on GPUs, gloo those in host memory. Created only if needed: it
        # fails where a node's name has no address.
        apart = via_host_memory and world.backend == "nccl"
        self.host_group = dist.new_group(backend="gloo") if apart else world.group
        self._steps: list[tuple[Any, Any]] = []
        self._parts: list[dict[str, list[tuple[Any, Any]]]] = []
        self._carried: list[list[tuple[int, Any, Any]]] = []
        self.losses: list[Tensor] = []
        self._began = time.perf_counter()
        self._writing = threading.Lock()

    def shard(self, worker: int | None = None, workers: int | None = None) -> Shard:
        """Return the samples of this rank, or of any worker among any number."""
        mine = self.rank if worker is None else worker
        return Shard(
            len(self.task), mine, workers or self.workers, self.training.batch, self.training.seed
        )

    def batch(self, shard: Shard, step: int) -> tuple[Tensor, Tensor]:
        """Return inputs and labels of ``shard`` in ``step``."""
        return self.task.batch(shard.indices(step))

    def replica_like(self) -> Replica:
        """Return another replica of the same task, with weights of its own."""
        return Replica(self.training, self.task)

    def steps(self) -> Iterator[int]:
        """Yield the numbers of this rank's iterations, each timed."""
        for step in range(self.training.steps):
            with self.timed_step():
                yield step

    @contextmanager
    def timed_step(self) -> Iterator[None]:
        """Time one iteration, and record its seconds and its parts'.

        Measured between marks of the device, without waiting in between, so timing does not slow
        it.
        """
        self._parts.append(defaultdict(list))
        self._carried.append([])
        begin = self.world.face.mark()
        yield
        self._steps.append((begin, self.world.face.mark()))

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Time a part of an iteration, between marks of the compute stream."""
        begin = self.world.face.mark()
        yield
        self._parts[-1][name].append((begin, self.world.face.mark()))

    def compute_gradient(
        self, step: int, forward: Forward | None = None, between: Between = nullcontext
    ) -> None:
        """Run forward and backward on this rank's batch.

        The loss goes to the record, the gradient to the replica.
        """
        if self.task.has_input_pipeline:
            with self.part("input"):
                self.task.await_input()
        with self.part("compute"):
            self.pause(step)
            batch = self.batch(self.shard(), step)
            self.losses.append(self.replica.compute_gradient(*batch, forward, between))

    def pause(self, step: int) -> None:
        """Keep the device busy as long as the settings say for this worker in ``step``."""
        self.world.face.spin(self.training.pause(self.rank, step))

    def update(self) -> None:
        """Update the replica by its gradient."""
        with self.part("update"):
            self.replica.update()

    def record_bucket(self, number: int, begin: Any, end: Any) -> None:
        """Record the marks between which bucket ``number`` was being sent, beside other work."""
        # Not by `part`: callbacks come from threads of the library.
        self._carried[-1].append((number, begin, end))

    def note(self, what: str, worker: int, clock: int, version: int = 0) -> None:
        """Append to the log; called from any thread."""
        # Under a lock, so that the order of the log is the order of its times.
        with self._writing:
            self.record.log.append(
                Event(time.perf_counter() - self._began, what, worker, clock, version)
            )

    def done(self) -> RankRecord:
        """Return the record with all seconds and losses, and the final weights."""
        face, record = self.world.face, self.record
        # Marks of a GPU can be read once they have passed.
        face.synchronize()
        record.step_s = [face.seconds(*both) for both in self._steps]
        named = dict.fromkeys(name for parts in self._parts for name in parts)
        for name in dict.fromkeys([*_PARTS, *named] if self._parts else ()):
            record.parts_s[name] = [
                sum(face.seconds(*both) for both in parts[name]) for parts in self._parts
            ]
        record.carried = []
        for (start, _), carried in zip(self._steps, self._carried, strict=True):
            seconds = [
                (number, face.seconds(start, begin), face.seconds(start, end))
                for number, begin, end in carried
            ]
            record.carried.append(seconds)
        # Read only now: reading a number from a GPU waits for all of its work.
        record.losses = [float(loss) for loss in self.losses]
        if self.task.keeps_weights:
            record.weights = self.replica.final().numpy()
        return record

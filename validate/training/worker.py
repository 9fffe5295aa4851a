"""One rank of a run: its replica, its shard of the data, its stopwatch and its log."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch.distributed as dist
from torch import Tensor

from validate.ranks.processes import World
from validate.training.digits import digits
from validate.training.local import Replica
from validate.training.record import Event, Record
from validate.training.settings import Training
from validate.training.shard import Shard


class Worker:
    """One rank of ``world``; ranks from ``workers`` on have no shard, since they only serve.

    ``host_group`` carries tensors in host memory. Replicas start differently on each rank, as they
    do where nobody takes care: `replicate` makes them equal.
    """

    def __init__(self, training: Training, world: World, workers: int, method: str) -> None:
        self.training = training
        self.world = world
        self.rank = world.rank
        self.workers = workers
        self.digits = digits(training.precision, world.device)
        self.replica = Replica(training, world.device, seed=training.seed + world.rank)
        self.record = Record(method, world.rank, world.size)
        # NCCL carries only what is on GPUs; gloo carries what is in host memory.
        self.host_group = dist.new_group(backend="gloo") if world.backend == "nccl" else world.group
        self._parts: dict[str, float] = defaultdict(float)
        self._began = time.perf_counter()
        self._writing = threading.Lock()

    def shard(self, worker: int | None = None, workers: int | None = None) -> Shard:
        """The samples of this rank, or of any worker among any number."""
        mine = self.rank if worker is None else worker
        return Shard(
            len(self.digits), mine, workers or self.workers, self.training.batch, self.training.seed
        )

    def batch(self, shard: Shard, step: int) -> tuple[Tensor, Tensor]:
        """Images and labels of ``shard`` in ``step``."""
        indices = shard.indices(step).to(self.world.device)
        return self.digits.images[indices], self.digits.labels[indices]

    def steps(self) -> Iterator[int]:
        """The numbers of this rank's iterations, each timed."""
        for step in range(self.training.steps):
            with self.timed_step():
                yield step

    @contextmanager
    def timed_step(self) -> Iterator[None]:
        """One iteration: its seconds, and those of its parts, go to the record."""
        self._parts.clear()
        start = time.perf_counter()
        yield
        self.record.step_s.append(time.perf_counter() - start)
        for name in ("compute", "communication", "update"):
            self.record.parts_s.setdefault(name, []).append(self._parts[name])

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A part of an iteration, timed until the device has done it."""
        start = time.perf_counter()
        yield
        # Kernels are only queued so far: without this, a part's seconds would be the next one's.
        self.world.synchronize()
        self._parts[name] += time.perf_counter() - start

    def learn(self, step: int, forward: Callable[[Tensor], Tensor] | None = None) -> None:
        """Forward and backward on this rank's batch.

        The loss goes to the record, the gradient to the replica.
        """
        with self.part("compute"):
            self.pause(step)
            loss = self.replica.learn(*self.batch(self.shard(), step), forward)
        self.record.losses.append(loss)

    def pause(self, step: int) -> None:
        """Wait as long as the settings say for this worker in iteration ``step``."""
        time.sleep(self.training.pause(self.rank, step))

    def update(self) -> None:
        """The replica moves by its gradient."""
        with self.part("update"):
            self.replica.update()

    def note(self, what: str, worker: int, clock: int, version: int = 0) -> None:
        """Append to the log; from any thread."""
        # Under a lock, so that the order of the log is the order of its times.
        with self._writing:
            self.record.log.append(
                Event(time.perf_counter() - self._began, what, worker, clock, version)
            )

    def done(self) -> Record:
        """The record with the final weights."""
        self.record.weights = self.replica.weights.detach().cpu().numpy().copy()
        return self.record

"""Replicas of a model that share one device and compute at the same time on their own batches.

On a GPU each learner is a stream, and one thread launches for all; on a CPU each is a thread that
computes on its own. ``by`` says which. The rows of one learner over batch sizes are the utilisation
curve for ``workload.utilisation``. Source: Koliousis et al., "Crossbow", VLDB 12(11), 2019.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import product
from threading import Barrier, BrokenBarrierError

import torch

from validate.microbench.benchmark import Benchmark, Row, time_columns
from validate.microbench.layer_clock import forward_and_backward
from validate.microbench.models import measured_here, subject
from validate.microbench.precision import computing_in
from validate.microbench.settings import Settings
from validate.ranks.processes import World
from validate.twins import Subject


class _Learner:
    """A replica with its batch and, on a GPU, its stream."""

    def __init__(
        self, measured: Subject, batch_size: int, world: World, settings: Settings
    ) -> None:
        self._module, self._batch = measured_here(measured, batch_size, world, settings)
        self._face = world.face
        self._precision = settings.precision
        self._stream = world.face.new_stream()
        world.synchronize()  # weights and batch must exist before another stream reads them

    def compute(self) -> None:
        """Run a forward and a backward pass; on a GPU they are only queued."""
        with self._face.on_stream(self._stream), computing_in(self._precision, self._face):
            self._module.zero_grad(set_to_none=True)
            forward_and_backward(self._module, self._batch)

    def passes(self, start: Barrier, end: Barrier, turns: int) -> None:
        """Run ``turns`` forward and backward passes, each between two barriers of all learners."""
        try:
            for _ in range(turns):
                start.wait()
                self.compute()
                end.wait()
        except BaseException:
            start.abort()  # so that no other waits for a failed one
            end.abort()
            raise


def _rows(world: World, settings: Settings) -> Iterator[Row]:
    measured = subject(settings)
    by = "streams" if world.on_gpu else "threads"
    for batch_size, learners in product(settings.batch_sizes, settings.learners):
        replicas = [_Learner(measured, batch_size, world, settings) for _ in range(learners)]
        if world.on_gpu:
            times = _in_streams(replicas, world, settings)
        else:
            with _one_thread_each():
                times = _in_threads(replicas, settings)
        columns = time_columns(times)
        yield {
            "model": measured.name,
            "batch": batch_size,
            "learners": learners,
            "by": by,
            **columns,
            "samples_per_s": batch_size * learners / columns["time_s"],
        }


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Keep torch from spreading an operation of one learner over the cores of the others."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _in_streams(learners: list[_Learner], world: World, settings: Settings) -> list[float]:
    """Return the seconds of each repetition: one thread queues all learners, a stream each.

    Python threads would launch their kernels in turns, and wait for one another as well.
    """
    times = []
    for turn in range(-settings.warmup, settings.iterations):
        world.synchronize()
        begin = time.perf_counter()
        for learner in learners:
            learner.compute()
        world.synchronize()
        if turn >= 0:
            times.append(time.perf_counter() - begin)
    return times


def _in_threads(learners: list[_Learner], settings: Settings) -> list[float]:
    """Return the seconds of each repetition, from the common start until all are done.

    While torch computes on a CPU it lets other threads run.
    """
    parties = len(learners) + 1  # the stopwatch waits at the barriers too
    start, end = Barrier(parties), Barrier(parties)
    turns = settings.warmup + settings.iterations
    times = []
    with ThreadPoolExecutor(len(learners)) as threads:
        running = [threads.submit(learner.passes, start, end, turns) for learner in learners]
        try:
            for _ in range(turns):
                start.wait()
                # The stopwatch starts when the last learner has reached the barrier.
                begin = time.perf_counter()
                end.wait()
                times.append(time.perf_counter() - begin)
        except BrokenBarrierError:
            # A learner that fails breaks the barriers, which makes the other learners fail.
            failures = [each.exception() for each in running]
            causes = [one for one in failures if one and not isinstance(one, BrokenBarrierError)]
            raise causes[0] from None
    return times[settings.warmup :]


LEARNERS = Benchmark("learners", "replicas of a model that share the device", False, _rows)

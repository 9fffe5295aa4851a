"""Replicas of a model that share one device, each with a batch of its own, all at the same time.

Each learner is a thread: on a CPU it computes in that thread alone, on a GPU with a stream of its
own (not run on a GPU yet). One learner's rows over batch sizes are the utilisation curve that
``workload.utilisation`` takes. Source: Koliousis et al., "Crossbow", VLDB 12(11), 2019.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from itertools import product
from threading import Barrier, BrokenBarrierError
from typing import Any

import torch

from validate.microbench.benchmark import Benchmark, Row, Tick, timed
from validate.microbench.layer_clock import forward_and_backward
from validate.microbench.models import Subject, subject
from validate.microbench.settings import Settings
from validate.ranks.processes import World


class _Learner:
    """A replica with its batch and, on a GPU, its stream."""

    def __init__(self, measured: Subject, batch_size: int, world: World) -> None:
        self._module = measured.module(world.device)
        self._batch = measured.batch(batch_size, self._module, world.device)
        self._stream = torch.cuda.Stream(world.device) if world.device.type == "cuda" else None
        world.synchronize()  # weights and batch are there before another stream reads them

    def passes(self, start: Barrier, end: Barrier, turns: int) -> None:
        """Passes both ways, ``turns`` times, each between two barriers of all learners."""
        try:
            for _ in range(turns):
                start.wait()
                self._pass()
                end.wait()
        except BaseException:
            start.abort()  # so that nobody waits for one that failed
            end.abort()
            raise

    def _pass(self) -> None:
        context: Any = nullcontext() if self._stream is None else torch.cuda.stream(self._stream)
        with context:
            self._module.zero_grad(set_to_none=True)
            forward_and_backward(self._module, self._batch)
        if self._stream is not None:
            self._stream.synchronize()


def _rows(world: World, settings: Settings, tick: Tick) -> Iterator[Row]:
    measured = subject(settings)
    for batch_size, learners in product(settings.batch_sizes, settings.learners):
        with _one_thread_each(world):
            replicas = [_Learner(measured, batch_size, world) for _ in range(learners)]
            columns = timed(_together(replicas, settings))
        tick()
        yield {
            "model": measured.name,
            "batch": batch_size,
            "learners": learners,
            **columns,
            "samples_per_s": batch_size * learners / columns["time_s"],
        }


@contextmanager
def _one_thread_each(world: World) -> Iterator[None]:
    """Keeps torch from spreading an operation of one learner over the cores of the others."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if world.device.type == "cpu" else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _together(learners: list[_Learner], settings: Settings) -> list[float]:
    """Seconds of each repetition, from when all may begin until all are done."""
    parties = len(learners) + 1  # the stopwatch waits at the barriers too
    start, end = Barrier(parties), Barrier(parties)
    turns = settings.warmup + settings.iterations
    times = []
    with ThreadPoolExecutor(len(learners)) as threads:
        running = [threads.submit(learner.passes, start, end, turns) for learner in learners]
        try:
            for _ in range(turns):
                start.wait()
                begin = time.perf_counter()
                end.wait()
                times.append(time.perf_counter() - begin)
        except BrokenBarrierError:
            # One learner failed and broke the barriers; the others fail of that alone.
            failures = [each.exception() for each in running]
            causes = [one for one in failures if one and not isinstance(one, BrokenBarrierError)]
            raise causes[0] from None
    return times[settings.warmup :]


def _count(world: World, settings: Settings) -> int:
    return len(settings.batch_sizes) * len(settings.learners)


LEARNERS = Benchmark("learners", "replicas of a model that share the device", False, _rows, _count)

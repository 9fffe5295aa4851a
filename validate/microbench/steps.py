"""A model's training steps without communication, the update alone, and steps beside others.

The optimiser's step for each optimiser that scenarios know, the spread of ranks that compute at
once, and what a step loses to an all-reduce beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from validate.microbench.benchmark import Benchmark, Row, seconds, time_columns, too_large
from validate.microbench.layer_clock import forward_and_backward
from validate.microbench.models import measured_here, subject
from validate.microbench.precision import computing_in
from validate.microbench.settings import Settings
from validate.microbench.software import OPTIMIZER_CLASSES, Words, apply_execution, optimizer_words
from validate.ranks.device import OUT_OF_MEMORY
from validate.ranks.processes import World
from validate.twins import Subject

UPDATE = "momentum"
_STEPS_FACTOR = 5  # times the repetitions of other benchmarks: a tail needs more than a median
_TURNS = 3


def step_of(module: Any, batch: Any, update: Any) -> None:
    """Run a step without communication: clear gradients, both passes, ``update``."""
    module.zero_grad(set_to_none=True)
    forward_and_backward(module, batch)
    update.step()


def optimizer_of(name: str, module: Any, words: Words) -> Any:
    """Return a new one for all parameters of ``module``."""
    kind, settings = OPTIMIZER_CLASSES[name]
    return kind(module.parameters(), **settings, **optimizer_words(name, words))


def _update_rows(world: World, settings: Settings) -> Iterator[Row]:
    measured = subject(settings)
    for name in settings.optimizers:
        module = measured.module(world.device)
        parameters = list(module.parameters())
        for parameter in parameters:
            # The time of an update does not depend on the gradient's numbers.
            parameter.grad = torch.ones_like(parameter)
        columns = time_columns(seconds(optimizer_of(name, module, settings).step, world, settings))
        elements = sum(parameter.numel() for parameter in parameters)
        counted = {"elements": elements, "tensors": len(parameters)}
        yield {
            "model": measured.name,
            "optimizer": name,
            "kernels": settings.optimizer_kernels,
            **counted,
            **columns,
            "seconds_per_element": columns["time_s"] / elements,
        }


OPTIMIZER = Benchmark(
    "optimizer", "the optimiser's step on a model's parameters", False, _update_rows
)


def _spread_rows(world: World, settings: Settings) -> Iterator[Row]:
    """Yield the seconds of a step's computing on every rank, all of them at once, step after step.

    A synchronous step ends with the slowest worker: the differences between workers are waiting,
    which no median of one rank shows. Nothing is sent but the barrier before each step.
    """
    measured = subject(settings)
    longer = settings.model_copy(update={"iterations": _STEPS_FACTOR * settings.iterations})
    for number, batch_size in enumerate(settings.batch_sizes):
        step = _step_that_fits(measured, batch_size, settings, world)
        # All ranks agree, so that none is left waiting at a barrier.
        fits = all(world.gather(step is not None))
        if step is None or not fits:
            yield too_large(settings.batch_sizes[number:])
            return
        with computing_in(settings.precision, world.face):
            times = seconds(step, world, longer, world.barrier)
        yield {
            "model": measured.name,
            "batch_size": batch_size,
            "precision": settings.precision,
            "optimizer": UPDATE,
            # A row per step, a number per rank.
            "steps_s": [list(ranks) for ranks in zip(*world.gather(times), strict=True)],
        }


def _step_that_fits(
    measured: Subject, batch_size: int, settings: Settings, world: World
) -> Callable[[], None] | None:
    """Return a step at this batch size, tried once; None if the device cannot hold it."""
    try:
        module, batch = measured_here(measured, batch_size, world, settings)
        module.forward = apply_execution(module.forward, settings, graphs=world.on_gpu)
        step = partial(step_of, module, batch, optimizer_of(UPDATE, module, settings))
        with computing_in(settings.precision, world.face):
            step()
    except OUT_OF_MEMORY:
        return None
    return step


SPREAD = Benchmark(
    "spread", "a step's computing on every rank at once, step after step", True, _spread_rows
)


def _beside_rows(world: World, settings: Settings) -> Iterator[Row]:
    """Yield the slow-down of a step's computing by a concurrent all-reduce, over sizes.

    On a CPU the library's threads take the computing cores; on a GPU NCCL's kernels take
    multiprocessors and memory. A step is timed alone, and again with an all-reduce that starts
    before it and is waited for after it. ``lost_s`` is the difference; if the all-reduce alone
    (``sent_s``) takes longer than the step, part of it is no slow-down. Each is measured in several
    turns, of which the one with the least median counts, as disturbances of a machine pass.
    """
    measured, batch_size = subject(settings), max(settings.batch_sizes)
    module, batch = measured_here(measured, batch_size, world, settings)
    step = partial(step_of, module, batch, optimizer_of(UPDATE, module, settings))
    with computing_in(settings.precision, world.face):
        for size in settings.sizes():
            vector = torch.zeros(max(size // 4, 1), device=world.device)
            both = partial(_beside, step, vector)
            sent = partial(_beside, lambda: None, vector)
            ways = {"alone_s": step, "beside_s": both, "sent_s": sent}
            taken = dict.fromkeys(ways, math.inf)
            for _, (name, way) in product(range(_TURNS), ways.items()):
                own = seconds(way, world, settings, world.barrier)
                # Take the slowest rank's time, since a rank that finishes early frees its cores.
                median = float(np.median(np.max(world.gather(own), axis=0)))
                taken[name] = min(taken[name], median)
            yield {
                "model": measured.name,
                "batch_size": batch_size,
                "bytes": vector.nbytes,
                **taken,
                "lost_s": taken["beside_s"] - taken["alone_s"],
            }


def _beside(compute: Callable[[], None], vector: Any) -> None:
    work = dist.all_reduce(vector, async_op=True)
    compute()
    work.wait()


def _missing(world: World) -> str:
    return "" if world.size > 1 else "it needs at least 2 ranks: --ranks 2, or torchrun"


BESIDE = Benchmark(
    "beside", "what a step loses to an all-reduce beside it", True, _beside_rows, _missing
)

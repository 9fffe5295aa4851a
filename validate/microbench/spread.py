"""Seconds of a step's computing on every rank, all of them at once, step after step.

A synchronous step ends with the slowest worker: the differences between workers are waiting, which
no median of one rank shows. Nothing is sent but the barrier before each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from validate.microbench.benchmark import Benchmark, Row, seconds, too_large
from validate.microbench.layers import UPDATE, step_of
from validate.microbench.models import measured_here, subject
from validate.microbench.precision import computing_in
from validate.microbench.settings import Settings
from validate.microbench.software import executed
from validate.microbench.updates import optimizer_of
from validate.ranks.device import OUT_OF_MEMORY
from validate.ranks.processes import World
from validate.twins import Subject

_STEPS = 5  # times the repetitions of other benchmarks: a tail needs more than a median


def _rows(world: World, settings: Settings) -> Iterator[Row]:
    measured = subject(settings)
    longer = settings.model_copy(update={"iterations": _STEPS * settings.iterations})
    for number, batch_size in enumerate(settings.batch_sizes):
        step = _step_that_fits(measured, batch_size, settings, world)
        # All ranks agree, so that none is left waiting at a barrier.
        fits = all(world.gather(step is not None))
        if step is None or not fits:
            yield too_large(settings.batch_sizes[number:])
            return
        with computing_in(settings.precision, world.face):
            own = seconds(step, world, longer, world.barrier)
        yield {
            "model": measured.name,
            "batch_size": batch_size,
            "precision": settings.precision,
            "optimizer": UPDATE,
            # A row per step, a number per rank.
            "steps_s": [list(ranks) for ranks in zip(*world.gather(own), strict=True)],
        }


def _step_that_fits(
    measured: Subject, batch_size: int, settings: Settings, world: World
) -> Callable[[], None] | None:
    """Return a step at this batch size, tried once; None if the device cannot hold it."""
    try:
        module, batch = measured_here(measured, batch_size, world, settings)
        module.forward = executed(module.forward, settings, graphs=world.on_gpu)
        step = partial(step_of, module, batch, optimizer_of(UPDATE, module, settings))
        with computing_in(settings.precision, world.face):
            step()
    except OUT_OF_MEMORY:
        return None
    return step


SPREAD = Benchmark(
    "spread", "a step's computing on every rank at once, step after step", True, _rows
)

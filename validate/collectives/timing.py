"""Times a collective: a barrier, then each rank from its own start to its own end.

It is repeated, and every output checked. Ranks of one machine read one clock, so that starts and
ends compare; between machines only durations do.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from validate.collectives.collective import Collective
from validate.ranks.processes import World, same_clock


@dataclass(frozen=True, slots=True, eq=False)
class Timing:
    """Seconds at which ranks began and ended, (repetitions, ranks).

    On one clock they count from when the first rank of a repetition began, elsewhere each rank's
    from its own beginning. ``wrong`` is how many elements of outputs were wrong, on all ranks and
    in all repetitions.
    """

    begins: FloatArray
    ends: FloatArray
    one_clock: bool
    wrong: int

    @property
    def times(self) -> FloatArray:
        """Seconds of each repetition: the longest that a rank took."""
        return np.asarray((self.ends - self.begins).max(axis=1))

    @property
    def since_last(self) -> FloatArray | None:
        """Seconds of each repetition from the last rank's begin to the last one's end.

        None without one clock.
        """
        return (
            np.asarray(self.ends.max(axis=1) - self.begins.max(axis=1)) if self.one_clock else None
        )

    @property
    def median(self) -> float:
        """The median of `times`."""
        return float(np.median(self.times))


def measure(
    collective: Collective,
    *,
    repetitions: int = 20,
    warmup: int = 1,
    in_place: bool = True,
    starts: Sequence[float] | None = None,
    done: Callable[[], None] | None = None,
) -> Timing:
    """Runs it ``warmup`` times and then ``repetitions`` times.

    All ranks call this alike, and get the same answer. ``starts`` are seconds, a number a rank,
    that each waits after the barrier before it begins. ``done`` is called after each run.
    """
    world = collective.world
    source, target = collective.buffers(in_place=in_place)
    stamps, wrong = np.empty((repetitions, 2)), 0
    for turn in range(-warmup, repetitions):
        collective.prepare(source, target)
        stamp = _timed(collective, source, target, 0.0 if starts is None else starts[world.rank])
        wrong += collective.wrong(target)
        if turn >= 0:
            stamps[turn] = stamp
        if done is not None:
            done()
    return _gathered(world, stamps, wrong)


def _timed(collective: Collective, source: Any, target: Any, start: float) -> tuple[float, float]:
    world = collective.world
    world.barrier()
    if start > 0:
        time.sleep(start)
    begin = time.perf_counter()
    collective.run(source, target)
    world.synchronize()
    return begin, time.perf_counter()


def _gathered(world: World, stamps: FloatArray, wrong: int) -> Timing:
    everyone = world.gather((stamps, wrong))
    begins, ends = (
        np.stack([each[:, column] for each, _ in everyone], axis=1) for column in (0, 1)
    )
    one_clock = same_clock(world)
    first = begins.min(axis=1, keepdims=True) if one_clock else begins.copy()
    return Timing(begins - first, ends - first, one_clock, sum(count for _, count in everyone))

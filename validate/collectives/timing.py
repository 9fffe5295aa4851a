"""Times a collective: a barrier, then each rank from its own start to its own end.

It is repeated, and every output checked. Ranks of one machine read one clock, so that starts and
ends are comparable; between machines only durations are.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from validate.collectives.collective import Collective
from validate.ranks.processes import World, same_clock


@dataclass(frozen=True, slots=True, eq=False)
class Timing:
    """The seconds at which ranks began and ended, (repetitions, ranks).

    On one clock they count from the start of a repetition's first rank, otherwise from each rank's
    own start. ``on_device``, of the same shape, is the devices' time by their own marks,
    ``in_a_row_s`` the mean time of many without a pause between. ``wrong`` is the number of wrong
    output elements, on all ranks and in all repetitions.
    """

    begins: FloatArray
    ends: FloatArray
    on_device: FloatArray
    in_a_row_s: float
    one_clock: bool
    wrong: int

    @property
    def times(self) -> FloatArray:
        """The seconds of each repetition: the longest time of a rank's device."""
        return np.asarray(self.on_device.max(axis=1))

    @property
    def since_last(self) -> FloatArray | None:
        """The seconds of each repetition from the last rank's start to the last one's end.

        None without one clock.
        """
        if not self.one_clock:
            return None
        return np.asarray(self.ends.max(axis=1) - self.begins.max(axis=1))


def measure(
    collective: Collective,
    *,
    repetitions: int = 20,
    warmup: int = 1,
    in_place: bool = True,
) -> Timing:
    """Run the collective ``warmup`` times and then ``repetitions`` times.

    All ranks must call this, and get the same result.
    """
    world = collective.world
    source, target = collective.buffers(in_place=in_place)
    stamps = np.empty((repetitions, 3))
    wrong = 0
    for turn in range(-warmup, repetitions):
        collective.prepare(source, target)
        stamp = _time_once(collective, source, target)
        # Outside the stamps of a repetition, so that checking is not timed.
        wrong += collective.wrong(target)
        if turn >= 0:
            stamps[turn] = stamp
    return _gather(world, stamps, _in_a_row(collective, source, target, repetitions), wrong)


def _time_once(collective: Collective, source: Any, target: Any) -> tuple[float, float, float]:
    """Return this rank's start and end on its own clock, and its device's seconds between."""
    world = collective.world
    world.barrier()
    begin = time.perf_counter()
    first = world.face.mark()
    collective.run(source, target)
    last = world.face.mark()
    world.face.finish()
    return begin, time.perf_counter(), world.face.seconds(first, last)


def _in_a_row(collective: Collective, source: Any, target: Any, repetitions: int) -> float:
    """Return the seconds of one of ``repetitions`` without a pause between, like nccl-tests."""
    world = collective.world
    collective.prepare(source, target)
    world.barrier()
    first = world.face.mark()
    for _ in range(repetitions):
        collective.run(source, target)
    last = world.face.mark()
    world.face.finish()
    return world.face.seconds(first, last) / repetitions


def _gather(world: World, stamps: FloatArray, in_a_row: float, wrong: int) -> Timing:
    everyone = world.gather((stamps, in_a_row, wrong))
    # Each has a row per repetition and a column per rank.
    begins, ends, on_device = (
        np.stack([own[:, column] for own, _, _ in everyone], axis=1) for column in range(3)
    )
    one_clock = same_clock(world)
    zero = begins.min(axis=1, keepdims=True) if one_clock else begins
    slowest = max(seconds for _, seconds, _ in everyone)
    wrong_anywhere = sum(count for *_, count in everyone)
    return Timing(begins - zero, ends - zero, on_device, slowest, one_clock, wrong_anywhere)

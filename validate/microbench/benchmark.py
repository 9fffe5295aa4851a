"""The definition of a microbenchmark, and the stopwatch that all of them use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from validate.microbench.settings import Settings
from validate.ranks.processes import World

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A benchmark: ``rows(world, settings)`` yields its rows.

    ``on_all_ranks``: all ranks run it in step, and rank 0's rows count; otherwise only rank 0 runs
    it. A row may say why the rest is ``not_run``. ``missing`` returns the reason why it cannot run
    in this world, empty if it can.
    """

    name: str
    description: str
    on_all_ranks: bool
    rows: Callable[[World, Settings], Iterator[Row]]
    missing: Callable[[World], str] = lambda world: ""


def seconds(
    function: Callable[[], object],
    world: World,
    settings: Settings,
    before: Callable[[], object] | None = None,
) -> list[float]:
    """Return the seconds of each repetition of ``function``, until the compute stream is done.

    ``before`` runs before each, untimed.
    """
    times = []
    for turn in range(-settings.warmup, settings.iterations):
        if before is not None:
            before()
        # Earlier work, on any stream, must not extend into the time.
        world.synchronize()
        begin = world.face.mark()
        function()
        # The end of the compute stream: concurrent work of others (NCCL's) does not count.
        end = world.face.mark()
        world.face.finish()
        if turn >= 0:
            times.append(world.face.seconds(begin, end))
    return times


def time_columns(times: list[float]) -> Row:
    """Return the columns of a measurement: the median, and every repetition."""
    return {"time_s": float(np.median(times)), "times_s": times}


def too_large(batch_sizes: Sequence[int]) -> Row:
    """Return the row for batch sizes that the device cannot hold."""
    sizes = ", ".join(map(str, batch_sizes))
    return {"not_run": f"batch sizes {sizes}: the device has not the memory for {batch_sizes[0]}"}


def rate(amount: float, time_s: float) -> float | None:
    """Return ``amount`` per second; None if no time passed."""
    return amount / time_s if time_s > 0 else None

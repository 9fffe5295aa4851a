"""The slow-down of a step's computing by a concurrent all-reduce, over sizes.

On a CPU the library's threads take the computing cores; on a GPU NCCL's kernels take
multiprocessors and memory. A step is timed alone, and again with an all-reduce that starts before
it and is waited for after it. ``lost_s`` is the difference; if the all-reduce alone (``sent_s``)
takes longer than the step, part of it is no slow-down. Each is measured in several turns, of which
the one with the least median counts, as disturbances of a machine pass.
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

from validate.microbench.benchmark import Benchmark, Row, seconds
from validate.microbench.layers import UPDATE, step_of
from validate.microbench.models import measured_here, subject
from validate.microbench.precision import computing_in
from validate.microbench.settings import Settings
from validate.microbench.updates import optimizer_of
from validate.ranks.processes import World

_TURNS = 3


def _rows(world: World, settings: Settings) -> Iterator[Row]:
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
                # The slowest rank's: a rank that finishes early frees its cores.
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


BESIDE = Benchmark("beside", "what a step loses to an all-reduce beside it", True, _rows, _missing)

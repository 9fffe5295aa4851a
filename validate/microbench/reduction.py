"""Adding what was received to one's own: the seconds per byte that a reduction costs, gamma."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from validate.collectives import TYPES, reduction
from validate.microbench.benchmark import Benchmark, Row, Tick, seconds, timed
from validate.microbench.settings import Settings
from validate.ranks.processes import World


def _rows(world: World, settings: Settings, tick: Tick) -> Iterator[Row]:
    for datatype in settings.datatypes:
        for redop in settings.redops:
            for size in settings.sizes():
                dtype = TYPES[datatype]
                elements = max(size // torch.empty(0, dtype=dtype).element_size(), 1)
                own, received = (
                    torch.ones(elements, dtype=dtype, device=world.device) for _ in range(2)
                )
                reduce = reduction(redop)
                columns = timed(seconds(lambda: reduce(own, received), world, settings))  # noqa: B023 - called at once
                tick()
                nbytes = own.nbytes
                yield {
                    "bytes": nbytes,
                    "type": datatype,
                    "redop": redop,
                    **columns,
                    "seconds_per_byte": columns["time_s"] / nbytes,
                }


def _count(world: World, settings: Settings) -> int:
    return len(settings.datatypes) * len(settings.redops) * len(settings.sizes())


REDUCTION = Benchmark(
    "reduction", "adding one vector to another: seconds per byte reduced", False, _rows, _count
)

"""Adding a received vector to one's own: the seconds per byte of a reduction, gamma."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import torch

from validate.collectives import TYPES
from validate.microbench.benchmark import Benchmark, Row, seconds, timed
from validate.microbench.settings import Settings
from validate.ranks.processes import World


def _rows(world: World, settings: Settings) -> Iterator[Row]:
    for datatype, size in product(settings.datatypes, settings.sizes()):
        dtype = TYPES[datatype]
        elements = max(size // torch.empty(0, dtype=dtype).element_size(), 1)
        own = torch.ones(elements, dtype=dtype, device=world.device)
        received = torch.ones_like(own)
        columns = timed(seconds(partial(own.add_, received), world, settings))
        yield {
            "bytes": own.nbytes,
            "type": datatype,
            "redop": "sum",
            **columns,
            "seconds_per_byte": columns["time_s"] / own.nbytes,
        }


REDUCTION = Benchmark(
    "reduction", "adding one vector to another: seconds per byte reduced", False, _rows
)

"""Copies between host and GPU over sizes, from pinned and from pageable memory.

By rank 0 alone, then by all ranks at once, which share the host's memory: ``at_once`` is their
number, and the slowest counts. Has only run against a fake of ``torch.cuda``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
import torch

from validate.microbench.benchmark import Benchmark, Row, rate, seconds, timed
from validate.microbench.settings import Settings
from validate.ranks.processes import World

_DIRECTIONS = ("host to device", "device to host")
_MEMORY = ("pinned", "pageable")


def _rows(world: World, settings: Settings) -> Iterator[Row]:
    crowds = (1, world.size) if world.size > 1 else (1,)
    cases = product(crowds, _DIRECTIONS, _MEMORY, settings.sizes())
    for at_once, direction, memory, size in cases:
        world.barrier()
        times = _measured(direction, memory, size, world, settings) if world.rank < at_once else []
        everyone = [own for own in world.gather(times) if own]
        # One rank's repetitions as a whole, since the ranks' repetitions were not synchronised.
        slowest = max(everyone, key=lambda own: float(np.median(own)))
        columns = timed(slowest)
        yield {
            "direction": direction,
            "memory": memory,
            "at_once": at_once,
            "bytes": size,
            **columns,
            "rate_Bps": rate(size, columns["time_s"]),
        }


def _measured(
    direction: str, memory: str, size: int, world: World, settings: Settings
) -> list[float]:
    host = torch.zeros(max(size, 1), dtype=torch.uint8, pin_memory=memory == "pinned")
    device = torch.zeros_like(host, device=world.device)
    source, target = (host, device) if direction == _DIRECTIONS[0] else (device, host)
    return seconds(partial(target.copy_, source, non_blocking=True), world, settings)


def _missing(world: World) -> str:
    if world.on_gpu:
        return ""
    return "there is no GPU to copy to: the device is the CPU"


COPIES = Benchmark(
    "copies", "copies between host and GPU, pinned and pageable", True, _rows, _missing
)

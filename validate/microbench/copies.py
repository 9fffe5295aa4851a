"""Copies between host and GPU over sizes, from pinned and from pageable memory.

Not run on a GPU yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import torch

from validate.microbench.benchmark import Benchmark, Row, Tick, rate, seconds, timed
from validate.microbench.settings import Settings
from validate.ranks.processes import World

_DIRECTIONS = ("host to device", "device to host")
_MEMORY = ("pinned", "pageable")


def _rows(world: World, settings: Settings, tick: Tick) -> Iterator[Row]:
    for direction, memory, size in product(_DIRECTIONS, _MEMORY, settings.sizes()):
        host = torch.zeros(max(size, 1), dtype=torch.uint8, pin_memory=memory == "pinned")
        device = torch.zeros_like(host, device=world.device)
        source, target = (host, device) if direction == _DIRECTIONS[0] else (device, host)
        copy = partial(target.copy_, source, non_blocking=True)
        columns = timed(seconds(copy, world, settings))
        tick()
        yield {
            "direction": direction,
            "memory": memory,
            "bytes": size,
            **columns,
            "rate_Bps": rate(size, columns["time_s"]),
        }


def _count(world: World, settings: Settings) -> int:
    return len(_DIRECTIONS) * len(_MEMORY) * len(settings.sizes())


def _missing(world: World) -> str:
    if world.device.type == "cuda":
        return ""
    return "there is no GPU to copy to: the device is the CPU"


COPIES = Benchmark(
    "copies", "copies between host and GPU, pinned and pageable", False, _rows, _count, _missing
)

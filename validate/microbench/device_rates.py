"""The device's rates: products, attention, memory, launches, reductions, and copies to the host.

Square products grow until one takes long; a 3x3 convolution and attention are of a size that fills
a device; memory is an elementwise kernel over a long vector; a launch is one of many kernels on one
element. Operands are made in the precision's own format, so times include no casts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from validate.collectives import TYPES
from validate.microbench.benchmark import Benchmark, Row, rate, seconds, time_columns
from validate.microbench.precision import FORMATS, products_in
from validate.microbench.settings import Settings
from validate.ranks.processes import World

_SIDES = (128, 256, 512, 1024, 2048, 4096, 8192)
_LONG_S = 0.01  # products stop growing once one takes longer
_LAUNCHES = 200
_VECTOR = {"cpu": 2**24, "cuda": 2**28}  # elements: beyond any cache
_CONV = {"cpu": (2, 64, 56), "cuda": (64, 256, 56)}  # batch, channels, side
_ATTENTION = {"cpu": (1, 8, 256, 64), "cuda": (8, 16, 2048, 64)}  # batch, heads, tokens, each
_DIRECTIONS = ("host to device", "device to host")
_MEMORY = ("pinned", "pageable")


def _rows(world: World, settings: Settings) -> Iterator[Row]:
    for precision in precisions(world):
        with products_in(precision):
            yield from _products(precision, world, settings)
            yield _convolution(precision, world, settings)
            yield _attention(precision, world, settings)
    yield _memory(world, settings)
    yield _launches(world, settings)


def precisions(world: World) -> list[str]:
    """Return the precisions to measure: only fp32 on a CPU, which has no units for others."""
    return [*FORMATS] if world.on_gpu else ["fp32"]


def _operand(precision: str, world: World, *shape: int) -> Any:
    # Drawn in fp32, since not every device draws in half precision.
    return torch.randn(*shape, device=world.device).to(FORMATS[precision] or torch.float32)


def _products(precision: str, world: World, settings: Settings) -> Iterator[Row]:
    for side in _SIDES:
        square = _operand(precision, world, side, side)
        multiply = partial(torch.matmul, square, square)
        row = _row("gemm", precision, 2.0 * side**3, world, settings, multiply)
        yield row
        if row["time_s"] > _LONG_S:
            return


def _convolution(precision: str, world: World, settings: Settings) -> Row:
    batch, channels, side = _CONV[world.face.kind]
    images = _operand(precision, world, batch, channels, side, side)
    weights = _operand(precision, world, channels, channels, 3, 3)
    # Two for a multiply and an add; padded at the edges, the image keeps its size.
    each_output = 2.0 * 9 * channels
    flop = each_output * batch * channels * side**2
    convolve = partial(functional.conv2d, images, weights, padding=1)
    return _row("conv", precision, flop, world, settings, convolve)


def _attention(precision: str, world: World, settings: Settings) -> Row:
    shape = _ATTENTION[world.face.kind]
    heads = [_operand(precision, world, *shape) for _ in range(3)]
    batch, count, tokens, each = shape
    # Two products, of queries with keys and of weights with values; the softmax is not counted.
    flop = 4.0 * batch * count * tokens**2 * each
    attend = functional.scaled_dot_product_attention
    return _row("attention", precision, flop, world, settings, lambda: attend(*heads))


def _memory(world: World, settings: Settings) -> Row:
    vector = torch.randn(_VECTOR[world.face.kind], device=world.device)
    # By 1, so that numbers stay the same over all repetitions. Each is read once and written once.
    row = _row("memory", "fp32", 0.0, world, settings, lambda: vector.mul_(1.0))
    return {**row, "flop_per_s": None, "rate_Bps": rate(2 * vector.nbytes, row["time_s"])}


def _launches(world: World, settings: Settings) -> Row:
    one = torch.zeros(1, device=world.device)

    def many() -> None:
        for _ in range(_LAUNCHES):
            one.add_(1)

    # Enough that the wait at the end of each repetition is negligible.
    columns = time_columns([taken / _LAUNCHES for taken in seconds(many, world, settings)])
    none = {"flop": 0.0, "flop_per_s": None, "rate_Bps": None}
    return {"kind": "launch", "precision": "fp32", **none, **columns}


def _row(
    kind: str,
    precision: str,
    flop: float,
    world: World,
    settings: Settings,
    function: Callable[[], Any],
) -> Row:
    columns = time_columns(seconds(function, world, settings))
    return {
        "kind": kind,
        "precision": precision,
        "flop": flop,
        **columns,
        "flop_per_s": rate(flop, columns["time_s"]),
        "rate_Bps": None,
    }


PRODUCTS = Benchmark(
    "products",
    "products, convolution, attention, memory and launches at every precision",
    False,
    _rows,
)


def _reduction_rows(world: World, settings: Settings) -> Iterator[Row]:
    """Yield the seconds of adding a received vector to one's own: gamma of a reduction."""
    for datatype, size in product(settings.datatypes, settings.sizes()):
        dtype = TYPES[datatype]
        elements = max(size // torch.empty(0, dtype=dtype).element_size(), 1)
        target = torch.ones(elements, dtype=dtype, device=world.device)
        received = torch.ones_like(target)
        columns = time_columns(seconds(partial(target.add_, received), world, settings))
        yield {
            "bytes": target.nbytes,
            "type": datatype,
            "redop": "sum",
            **columns,
            "seconds_per_byte": columns["time_s"] / target.nbytes,
        }


REDUCTION = Benchmark(
    "reduction", "adding one vector to another: seconds per byte reduced", False, _reduction_rows
)


def _copy_rows(world: World, settings: Settings) -> Iterator[Row]:
    """Yield copies between host and GPU over sizes, from pinned and from pageable memory.

    By rank 0 alone, then by all ranks at once, which share the host's memory: ``at_once`` is their
    number, and the slowest counts. Has only run against a fake of ``torch.cuda``.
    """
    crowds = (1, world.size) if world.size > 1 else (1,)
    cases = product(crowds, _DIRECTIONS, _MEMORY, settings.sizes())
    for at_once, direction, memory, size in cases:
        world.barrier()
        times = _measure(direction, memory, size, world, settings) if world.rank < at_once else []
        everyone = [own for own in world.gather(times) if own]
        # Take the slowest rank's repetitions as a whole, since ranks were not synchronised.
        slowest = max(everyone, key=lambda own: float(np.median(own)))
        columns = time_columns(slowest)
        yield {
            "direction": direction,
            "memory": memory,
            "at_once": at_once,
            "bytes": size,
            **columns,
            "rate_Bps": rate(size, columns["time_s"]),
        }


def _measure(
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
    "copies", "copies between host and GPU, pinned and pageable", True, _copy_rows, _missing
)

"""Messages between two ranks over sizes: one way, both ways at once, and one after another.

- ping-pong: a message and one of the same size back, for which the receive is posted before;
  ``time_s`` is half of both.
- exchange: both ranks send at once, receives posted first; ``time_s`` until both have both. Its
  ratio to the ping-pong's is the duplex factor.
- burst: `BURST` messages one after another, all receives posted before, then an answer of a byte;
  ``time_s`` is the cost of one more message: (time of the burst - median time of a burst of one) /
  (`BURST` - 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from validate.microbench.benchmark import Benchmark, Row, rate, seconds, time_columns
from validate.microbench.settings import Settings
from validate.ranks.processes import World

BURST = 16
_SENDING_RANKS = (0, 1)  # the ranks that send
PATTERNS = ("ping-pong", "exchange", "burst")

Transfers = list[tuple[Any, int]]  # (tensor, peer)


def _rows(world: World, settings: Settings) -> Iterator[Row]:
    for size, pattern in product(settings.sizes(), PATTERNS):
        times = world.gather(_measure_pair(pattern, size, world, settings))
        # Patterns begin and end on the first rank, whose clock has seen all of it.
        columns = time_columns(times[_SENDING_RANKS[0]])
        yield {
            "pattern": pattern,
            "pair": list(_SENDING_RANKS),
            "bytes": size,
            **columns,
            "rate_Bps": rate(size, columns["time_s"]),
        }


def _measure_pair(pattern: str, size: int, world: World, settings: Settings) -> list[float]:
    """Seconds of each repetition on the pair's ranks; nothing on the others."""
    world.barrier()
    if world.rank not in _SENDING_RANKS:
        return []
    first = world.rank == _SENDING_RANKS[0]
    peer = _SENDING_RANKS[1] if first else _SENDING_RANKS[0]
    nbytes = max(size, 1)
    # The last buffer is for the answer to a burst.
    buffers = [
        torch.zeros(nbytes, dtype=torch.uint8, device=world.device) for _ in range(BURST + 1)
    ]
    if pattern == "ping-pong":
        there_and_back = seconds(lambda: _ping_pong(first, peer, buffers), world, settings)
        return [taken / 2 for taken in there_and_back]
    if pattern == "exchange":
        return seconds(lambda: _move([(buffers[0], peer)], [(buffers[1], peer)]), world, settings)
    one = seconds(lambda: _burst(1, first, peer, buffers), world, settings)
    many = seconds(lambda: _burst(BURST, first, peer, buffers), world, settings)
    single = float(np.median(one))
    return [(taken - single) / (BURST - 1) for taken in many]


def _ping_pong(first: bool, peer: int, buffers: list[Any]) -> None:
    if first:
        _move([(buffers[1], peer)], [(buffers[0], peer)])
    else:
        _move([(buffers[1], peer)], [])
        _move([], [(buffers[0], peer)])


def _burst(count: int, first: bool, peer: int, buffers: list[Any]) -> None:
    messages = [(buffer, peer) for buffer in buffers[:count]]
    answer = [(buffers[-1][:1], peer)]
    # The answer is a group of its own: NCCL runs the operations of one group for one peer in order,
    # pair by pair, and would wait for the answer before the second message.
    if first:
        _move([], messages)
        _move(answer, [])
    else:
        _move(messages, [])
        _move([], answer)


def _move(receives: Transfers, sends: Transfers) -> None:
    """Post receives, then sends, and wait for all."""
    operations = [dist.P2POp(dist.irecv, tensor, peer) for tensor, peer in receives]
    operations += [dist.P2POp(dist.isend, tensor, peer) for tensor, peer in sends]
    for work in dist.batch_isend_irecv(operations):
        work.wait()


def _missing(world: World) -> str:
    if world.size < 2:
        return "it needs at least 2 ranks: --ranks 2, or torchrun"
    if world.backend == "gloo" and world.on_gpu:
        return "gloo sends no CUDA tensors point to point"
    return ""


POINT_TO_POINT = Benchmark(
    "point-to-point",
    "messages between two ranks: one way, both ways, in a row",
    True,
    _rows,
    _missing,
)

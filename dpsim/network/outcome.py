"""What a rank pays beside the network, and what a collective's run answers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpsim.base.arrays import FloatArray, IntArray

Leave = Callable[[IntArray], None]


@dataclass(frozen=True, slots=True)
class MessageCosts:
    """What a rank pays beside the network.

    ``overhead`` s for each message it sends, ``gamma`` s for each byte it reduces.
    """

    overhead: float = 0.0
    gamma: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """When each rank finished (s, a vector over ranks), and what each link carried.

    ``loads`` are the bytes that each capacity of the network carried. ``rested_at`` is when its
    links will have saved up again all that they can (s), of rate limiters that do.
    """

    finishes: FloatArray
    loads: FloatArray
    rested_at: float = float("-inf")

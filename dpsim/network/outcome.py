"""The costs of a rank apart from the network, and the outcome of a collective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dpsim.base.arrays import FloatArray, IntArray

OnRanks = Callable[[IntArray], None]  # lets ranks enter, or handles that they leave


@dataclass(frozen=True, slots=True)
class MessageCosts:
    """The costs of a rank apart from the network.

    ``overhead`` s for each message it sends, ``gamma`` s for each byte it reduces.
    """

    overhead: float = 0.0
    gamma: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """When each rank finished (s, a vector over ranks), and what each link carried.

    ``loads`` are the bytes that each capacity of the network carried. ``refilled_at`` is when the
    links' rate limiters, if any, will have saved up their full burst again (s).
    """

    finishes: FloatArray
    loads: FloatArray
    refilled_at: float = float("-inf")

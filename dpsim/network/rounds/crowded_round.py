"""A round of very many concurrent transfers, such as an all-to-all, processed in blocks.

Laid out in full, sixteen million transfers take some forty columns of 130 MB each. Here the turns
of the phase are processed in blocks that fit a processor's cache, and only the links (as short
integers), latency and rate of each transfer are kept. The result equals `TimedRound`'s, except for
the order in which rates are added up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.budget import check
from dpsim.collectives import Chunking, Round, Schedule
from dpsim.network.maxmin import BlocksOfFlows
from dpsim.network.outcome import MessageCosts
from dpsim.topology import Network

_AT_ONCE = 1 << 16  # transfers per block, so that its table of links stays in the cache


@dataclass(frozen=True, slots=True, eq=False)
class _Block:
    """Some turns, and their transfers' links (hops, transfers), latency (s) and rate (B/s)."""

    turns: range
    links: NDArray[np.int32]
    latency: FloatArray
    rate: FloatArray


class CrowdedRound:
    """The round of phase ``number`` of ``schedule``, with all turns at once."""

    def __init__(
        self, schedule: Schedule, number: int, network: Network, costs: MessageCosts
    ) -> None:
        self._phase = schedule.phases[number]
        self._ranks = schedule.ranks
        self._costs = costs
        self._blocks = self._routed(network)

    def _routed(self, network: Network) -> list[_Block]:
        flows = BlocksOfFlows(network.capacities)
        routed = []
        at_once = max(1, _AT_ONCE // len(self._phase.source))
        for first in range(0, self._phase.turns, at_once):
            check()
            turns = range(first, min(first + at_once, self._phase.turns))
            # Turn by turn, because tables of a few thousand routes stay in the cache.
            each = [self._phase.laid_out((turn,)) for turn in turns]
            routes = [network.routes(one.source, one.destination) for one in each]
            links = flows.add([one.links for one in routes])
            routed.append((turns, links, np.concatenate([one.latency for one in routes])))
        rates = flows.rates()
        return [_Block(*block, rate) for block, rate in zip(routed, rates, strict=True)]

    def _each(self, chunking: Chunking) -> Iterator[tuple[_Block, Round, IntArray]]:
        """Yield every block with its transfers and their bytes."""
        for block in self._blocks:
            check()
            transfers = self._phase.laid_out(block.turns)
            yield block, transfers, chunking.nbytes(transfers.chunk, transfers.count)

    def step(self, chunking: Chunking, ready: FloatArray) -> FloatArray:
        """Return when each rank that is ready at ``ready`` (s) has done the round."""
        messages = np.bincount(self._phase.source, minlength=self._ranks) * self._phase.turns
        posted = ready + messages * self._costs.overhead
        finished = ready.copy()
        reduced = np.zeros(self._ranks)
        for block, transfers, nbytes in self._each(chunking):
            source, destination = transfers.source, transfers.destination
            seconds = block.latency + nbytes / block.rate
            ends = np.maximum(posted[source], posted[destination]) + seconds
            np.maximum.at(finished, destination, ends)
            np.maximum.at(finished, source, ends)
            reduced += np.bincount(destination, nbytes * transfers.reduce, self._ranks)
        return finished + reduced * self._costs.gamma

    def add_loads(self, chunking: Chunking, loads: FloatArray) -> None:
        """Add the bytes of every transfer to each link of its route; the first is for no link."""
        for block, _, nbytes in self._each(chunking):
            carried = nbytes.astype(np.float64)
            for hop in block.links:
                loads += np.bincount(hop, carried, len(loads))

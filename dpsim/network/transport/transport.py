"""Times a collective as processes carry it out over TCP.

It follows shared processors, announcements, buffered sends and rate limiters.

A rank posts a step's receives, then its sends. A receive is announced to the sender over the same
links; data goes once both the announcement has come and the send is posted, in the order of posting
between two ranks. A send is done when all but what the kernel buffers is on its way, a receive when
all has come. Each post, send and arrival takes ``overhead`` s of one of the machine's ``cores``, a
program's own posts and adding up ``dispatch`` s more; what comes takes ``per_byte`` s a byte,
adding up ``gamma`` s a byte, and entering the collective ``entry`` s. Processors take what is asked
of them in that order, one thing at a time for each rank. Links are those of
`dpsim.network.transport.rate_limits`.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.collectives import IN_NETWORK, OPERATIONS, Schedule, algorithm, algorithm_names
from dpsim.hardware import Transport
from dpsim.network.fastest import FastestModel
from dpsim.network.libraries import TRAITS, chooses, segment_count
from dpsim.network.model import Ability, CollectiveModel
from dpsim.network.model_choice import schedule_on
from dpsim.network.outcome import Outcome
from dpsim.network.rounds import RoundsModel
from dpsim.network.transport.rank_programs import Programs, gloo_programs, schedule_programs
from dpsim.network.transport.rate_limits import RateLimiter
from dpsim.network.transport.transport_run import TransportRun
from dpsim.topology import Network

_KEPT = 4096  # timings

# More ranks than this are not simulated message by message.
MOST_RANKS = 64


class TransportModel(CollectiveModel):
    """One collective over ``transport`` on ``network``.

    It goes by ``schedule``, or by gloo's own all-reduce where that is None.
    """

    abilities = Ability.OWN_STARTS | Ability.UNEVEN_OVERLAP

    def __init__(
        self,
        network: Network,
        transport: Transport,
        schedule: Schedule | None = None,
        *,
        gamma: float = 0.0,
    ) -> None:
        self.network = network
        self.transport = transport
        self.saved = transport.burst  # what its limiters save up while links are idle
        self.own = schedule is None
        self.schedule = schedule or algorithm("ring").schedule(network.ranks)
        self.gamma = gamma if transport.gamma is None else transport.gamma
        # Links carry the same bytes however processes go about it; gloo's ring sends as much as
        # ours.
        self._loads = RoundsModel(self.schedule, network)
        self._timed: dict[tuple[int, float, bytes], tuple[FloatArray, float]] = {}

    @property
    def joins_all(self) -> bool:
        """As its operation does."""
        return OPERATIONS[self.schedule.operation].joins_all

    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """When each rank leaves (s) that enters at ``starts`` (s), both vectors over ranks.

        ``nbytes`` is the size of each rank's vector. Links are rested before.
        """
        return self._finish_after(starts, nbytes, float("-inf"))

    def _finish_after(self, starts: FloatArray, nbytes: int, rested_at: float) -> Outcome:
        """The same where the links, all alike, are rested only at ``rested_at`` (s).

        Until then they have not saved up all that they can.
        """
        # Times from the first start on: equal steps then have equal keys, and rounding stays small.
        begin = float(starts.min())
        missing = min(max(rested_at - begin, 0.0), self.transport.burst)
        # Steps of a job are alike but for rounding: what differs by 0.1 us is not timed again.
        key = (nbytes, round(missing, 6), np.round(starts - begin, 7).tobytes())
        if key not in self._timed:
            if len(self._timed) >= _KEPT:
                self._timed.clear()
            self._timed[key] = TransportRun(self, starts - begin, nbytes, missing).ends()
        ends, rested = self._timed[key]
        return Outcome(begin + ends, self._loads.loads(nbytes), begin + rested)

    def programs(self, nbytes: int) -> Programs:
        """What each rank does, in each channel."""
        if self.own:
            ranks = self.network.ranks
            return gloo_programs(ranks, nbytes, segment_count(ranks, nbytes), self.itemsize)
        return schedule_programs(self.schedule, nbytes, self.itemsize)

    @cached_property
    def paths(self) -> list[list[tuple[int, ...]]]:
        """For each pair of ranks the limiters on the way."""
        ranks = self.network.ranks
        every_source, every_destination = np.divmod(np.arange(ranks * ranks), ranks)
        apart = every_source != every_destination
        source, destination = every_source[apart], every_destination[apart]
        routes = self.network.routes(source, destination)

        limiters = np.flatnonzero(self._limits).tolist()
        # Links that can never be full would be events for nothing.
        number = {link: place for place, link in enumerate(limiters)}
        paths: list[list[tuple[int, ...]]] = [[()] * ranks for _ in range(ranks)]
        for one, other, links in zip(source, destination, routes.links.tolist(), strict=True):
            paths[one][other] = tuple(number[link] for link in links if link in number)
        return paths

    @cached_property
    def _limits(self) -> NDArray[np.bool_]:
        """Which links can be full.

        None that is as many times as fast as any pair's slowest one as there are ranks.
        """
        ranks = np.arange(self.network.ranks)
        routes = self.network.routes(ranks, np.roll(ranks, 1))
        capacities = self.network.capacities
        with_none = np.append(capacities, np.inf)  # the last is for -1, no link
        slowest = float(with_none[routes.links].min(axis=1).max())
        # What has room for all ranks at once, each as fast as its slowest link, is left out.
        return capacities < slowest * self.network.ranks

    def limiters(self, missing: float) -> list[RateLimiter]:
        """The links that can be full; ``missing`` s of what they can save up are used."""
        rates = self.network.capacities[self._limits].tolist()
        return [RateLimiter(rate, self.transport.burst, missing) for rate in rates]


def transport_model(
    name: str,
    network: Network,
    transport: Transport,
    *,
    operation: str = "all-reduce",
    library: str = "ideal",
    gamma: float = 0.0,
) -> CollectiveModel | None:
    """The model of ``operation`` by the algorithm ``name`` or by gloo, on a measured transport.

    ``auto`` is the fastest algorithm. None where this is not for it: other libraries, switches that
    reduce, more than `MOST_RANKS` ranks, or a profile that says nothing of processors and limiters.
    """
    if (
        not transport.detailed
        or network.ranks > MOST_RANKS
        or not (library in TRAITS and TRAITS[library].on_sockets)
        or name == IN_NETWORK
    ):
        return None
    if chooses(library):
        if operation != "all-reduce":
            return None
        return TransportModel(network, transport, gamma=gamma)

    def by(chosen: str) -> TransportModel:
        schedule = schedule_on(network, algorithm(chosen, operation))
        return TransportModel(network, transport, schedule, gamma=gamma)

    if name != "auto":
        return by(name)
    candidates: dict[str, CollectiveModel] = {}
    for one in algorithm_names(operation):
        with suppress(DpsimError):  # not for these nodes
            candidates[one] = by(one)
    return FastestModel(network.ranks, candidates, lambda chosen: None)

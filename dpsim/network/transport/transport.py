"""Time a collective as processes run it over TCP.

Models shared processors, announcements, buffered sends and rate limiters.

A rank posts a step's receives, then its sends. A receive is announced to the sender over the same
links; data is sent once the announcement has arrived and the send is posted, in the order of
posting between two ranks. A send is done when all but the bytes that the kernel buffers is in
flight, a receive when everything has arrived. Each post, send and arrival takes ``overhead`` s of
one of the machine's ``cores``, a program's own posts and reductions ``dispatch`` s more; arriving
data takes ``per_byte`` s a byte, reductions ``gamma`` s a byte, and entering the collective
``entry`` s. Processors do this work in the order of the requests, one thing at a time for each
rank. Links are those of `dpsim.network.transport.rate_limits`.
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
from dpsim.network.collective_models import CollectiveModel
from dpsim.network.fastest import FastestModel
from dpsim.network.libraries import TRAITS, chooses, segment_count
from dpsim.network.model_choice import schedule_on
from dpsim.network.outcome import Outcome
from dpsim.network.rounds import RoundsModel
from dpsim.network.transport.rank_programs import Programs, gloo_programs, schedule_programs
from dpsim.network.transport.rate_limits import RateLimiter
from dpsim.network.transport.transport_run import TransportRun
from dpsim.topology import Network

_KEPT = 4096  # cached timings

# The most ranks that are simulated message by message.
MOST_RANKS = 64


class TransportModel(CollectiveModel):
    """One collective over ``transport`` on ``network``.

    It runs ``schedule``, or gloo's own all-reduce if that is None.
    """

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
        self.saved = transport.burst  # its limiters save this up while links are idle
        self.runs_gloo = schedule is None
        # A library's own code posts without the Python overhead of a program.
        self.dispatch = 0.0 if self.runs_gloo else transport.dispatch
        self.schedule = schedule or algorithm("ring").schedule(network.ranks)
        self.gamma = gamma if transport.gamma is None else transport.gamma
        # Link loads do not depend on how processes work; gloo's ring sends as much as this one.
        self._loads = RoundsModel(self.schedule, network)
        self._timed: dict[tuple[int, float, bytes], tuple[FloatArray, float]] = {}

    @property
    def joins_all(self) -> bool:
        return OPERATIONS[self.schedule.operation].joins_all

    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """Return when each rank that enters at ``starts`` leaves (s, vectors over ranks).

        ``nbytes`` is the size of each rank's vector. The links' buckets are full at the start.
        """
        return self._finish_after(starts, nbytes, float("-inf"))

    def _finish_after(self, starts: FloatArray, nbytes: int, refilled_at: float) -> Outcome:
        """Return the same if the links have their full burst only at ``refilled_at`` (s)."""
        # Times relative to the first start, so that equal steps have equal keys and little
        # rounding.
        begin = float(starts.min())
        missing = min(max(refilled_at - begin, 0.0), self.transport.burst)
        # Steps of a job are equal up to rounding, so differences of 0.1 us are ignored.
        key = (nbytes, round(missing, 6), np.round(starts - begin, 7).tobytes())
        if key not in self._timed:
            if len(self._timed) >= _KEPT:
                self._timed.clear()
            run = TransportRun(
                self.transport,
                self.programs(nbytes),
                self.paths,
                self.limiters(missing),
                starts - begin,
                dispatch=self.dispatch,
                gamma=self.gamma,
            )
            self._timed[key] = run.ends()
        ends, rested = self._timed[key]
        return Outcome(begin + ends, self._loads.loads(nbytes), begin + rested)

    def programs(self, nbytes: int) -> Programs:
        """Return the program of each rank."""
        if self.runs_gloo:
            ranks = self.network.ranks
            return gloo_programs(ranks, nbytes, segment_count(ranks, nbytes), self.itemsize)
        return schedule_programs(self.schedule, nbytes, self.itemsize)

    @cached_property
    def paths(self) -> list[list[tuple[int, ...]]]:
        """The limiters on the way, for each pair of ranks."""
        ranks = self.network.ranks
        every_source, every_destination = np.divmod(np.arange(ranks * ranks), ranks)
        apart = every_source != every_destination
        source, destination = every_source[apart], every_destination[apart]
        routes = self.network.routes(source, destination)

        limiters = np.flatnonzero(self._limits).tolist()
        # Links that can never be full are left out to save events.
        number = {link: place for place, link in enumerate(limiters)}
        paths: list[list[tuple[int, ...]]] = [[()] * ranks for _ in range(ranks)]
        for one, other, links in zip(source, destination, routes.links.tolist(), strict=True):
            paths[one][other] = tuple(number[link] for link in links if link in number)
        return paths

    @cached_property
    def _limits(self) -> NDArray[np.bool_]:
        """The links that can be full, as a mask.

        A link cannot be full if its rate is at least the number of ranks times the rate of any
        pair's slowest link.
        """
        ranks = np.arange(self.network.ranks)
        routes = self.network.routes(ranks, np.roll(ranks, 1))
        capacities = self.network.capacities
        with_none = np.append(capacities, np.inf)  # the last is for -1, no link
        slowest = float(with_none[routes.links].min(axis=1).max())
        return capacities < slowest * self.network.ranks

    def limiters(self, missing: float) -> list[RateLimiter]:
        """Return the links that can be full; ``missing`` s of their burst are used up."""
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
    """Return the model of ``operation`` by algorithm ``name`` or gloo, on a measured transport.

    ``auto`` is the fastest algorithm. None if this model does not apply: other libraries, switches
    that reduce, more than `MOST_RANKS` ranks, or a profile without details of processors and
    limiters.
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
    return FastestModel(candidates)

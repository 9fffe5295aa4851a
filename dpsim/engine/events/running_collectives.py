"""One collective of one group of workers: who has entered, and when each leaves.

Alone on its links it ends for each rank when its model says, from the ranks' own starts. Beside
others it does so message by message, or as one bundle that keeps its share of each link.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
import simpy

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.budget import check
from dpsim.engine.events.sending import Span
from dpsim.network import CollectiveModel, SharedNetwork
from dpsim.topology import Routes

_SAME = 1e-12  # relative: who leaves earlier by less leaves at the same time
# s after now: what is taken for the start of those that have not entered yet.
_FAR = 1e6


@dataclass(slots=True)
class SharedLinks:
    """What all running collectives share: the network, and which of its links several of them load.

    ``rested_at`` is when its links will have saved up all that they can (s).
    """

    shared: SharedNetwork
    contended: IntArray
    rested_at: float = float("-inf")

    @property
    def env(self) -> simpy.Environment:
        """The clock of the run."""
        return self.shared.env


@dataclass(frozen=True, slots=True, eq=False)
class Party:
    """A group of workers, ``ranks``, and the model of what they do together."""

    ranks: IntArray
    place: dict[int, int]
    model: CollectiveModel

    @classmethod
    def of(cls, ranks: IntArray, model: CollectiveModel) -> Party:
        """``ranks``, in the order in which ``model`` has them."""
        return cls(ranks, {rank: place for place, rank in enumerate(ranks.tolist())}, model)


class RunningCollective(ABC):
    """One collective of ``nbytes`` of one party."""

    def __init__(self, shared_links: SharedLinks, party: Party, nbytes: int, span: Span) -> None:
        check()
        self.shared_links = shared_links
        self.env = shared_links.env
        self.party = party
        self.nbytes = nbytes
        self.span = span
        self.starts = np.full(len(party.ranks), np.nan)
        self.missing = len(party.ranks)
        self._leaving: dict[int, simpy.Event] = {}

    def join(self, rank: int) -> simpy.Event:
        """``rank`` enters now; what comes back happens when it leaves."""
        place = self.party.place[rank]
        event = self._leaving[place] = self.env.event()
        self.starts[place] = self.span.last_start = self.env.now
        self.missing -= 1
        self.entered(place)
        return event

    @abstractmethod
    def entered(self, place: int) -> None:
        """The rank at ``place`` has entered."""

    def leave(self, places: Iterable[int]) -> None:
        """The ranks at ``places`` leave now."""
        self.leave_at(places, [self.env.now] * len(self.starts))

    def leave_at(self, places: Iterable[int], times: list[float]) -> None:
        """Each rank at ``places`` leaves at its time of ``times`` (s)."""
        env, span = self.env, self.span
        now = env.now
        for place in places:
            event, end = self._leaving.pop(place), times[place]
            # Triggered now, to happen then: one event a rank instead of two.
            event._ok, event._value = True, None
            env.schedule(event, delay=max(end - now, 0.0))
            span.last_end = max(span.last_end, end)


class Together(RunningCollective):
    """Nobody leaves before all have entered, and nobody else is on its links."""

    def entered(self, place: int) -> None:
        """The last one knows when all leave."""
        if not self.missing:
            self.leave_at(range(len(self.starts)), self.finishes().tolist())

    def finishes(self) -> FloatArray:
        """When each rank leaves (s) by the model."""
        shared_links = self.shared_links
        outcome = self.party.model.finish_after(self.starts, self.nbytes, shared_links.rested_at)
        shared_links.rested_at = outcome.rested_at
        return outcome.finishes


class OneByOne(RunningCollective):
    """Some may leave before all have entered; nobody else is on its links.

    A rank leaves when its model says so whatever those that are missing do: it is asked as if they
    came in a far future.
    """

    _asked = False

    def entered(self, place: int) -> None:
        """Ask when everyone of this instant has entered."""
        if not self._asked:
            self._asked = True
            self.env.timeout(0).callbacks.append(self._ask)

    def _ask(self, _: simpy.Event) -> None:
        self._asked = False
        far = self.env.now + _FAR
        starts = np.where(np.isnan(self.starts), far, self.starts)
        model, shared_links = self.party.model, self.shared_links
        outcome = model.finish_after(starts, self.nbytes, shared_links.rested_at)
        if not self.missing:
            shared_links.rested_at = outcome.rested_at
        times = outcome.finishes.tolist()
        known = [place for place in self._leaving if times[place] < far]
        self.leave_at(known, times)


class Played(RunningCollective):
    """Goes message by message, over links that others use, too."""

    def __init__(self, shared_links: SharedLinks, party: Party, nbytes: int, span: Span) -> None:
        super().__init__(shared_links, party, nbytes, span)
        self._play = party.model.play(
            shared_links.shared, nbytes, lambda ranks: self.leave(ranks.tolist())
        )
        self._entering: list[int] = []

    def entered(self, place: int) -> None:
        """Those of one instant enter together."""
        self._entering.append(place)
        if len(self._entering) == 1:
            self.env.timeout(0).callbacks.append(self._enter)

    def _enter(self, _: simpy.Event) -> None:
        entering, self._entering = self._entering, []
        self._play.enter(np.array(entering))


class Bundle(Together):
    """All of it is one flow, from when the last has entered until the last has left.

    Of what it takes alone, it is on the links that others use for as long as the busiest of them
    needs for its bytes at the rate that its model sustains; the rest, latencies, sums and other
    links, passes whoever else is there. Those that leave before the last mark points on its way.
    """

    def entered(self, place: int) -> None:
        """The last one knows what it takes alone, and lets the bundle go."""
        if self.missing:
            return
        shared_links = self.shared_links
        outcome = self.party.model.finish_after(self.starts, self.nbytes, shared_links.rested_at)
        shared_links.rested_at = outcome.rested_at
        loads = outcome.loads[shared_links.contended]
        links = shared_links.contended[loads > 0]
        if not len(links):
            self.leave_at(range(len(self.starts)), outcome.finishes.tolist())
            return
        alone = np.maximum(outcome.finishes - self.env.now, 0.0)
        self._start(links, loads[loads > 0], alone)

    def _start(self, links: IntArray, loads: FloatArray, alone: FloatArray) -> None:
        """Let it go; rank i is through after ``alone[i]`` s where nobody else is on ``links``."""
        seconds = loads / self.shared_links.shared.network.capacities[links]
        # What a library leaves of a link by itself, others of its kind do not get either.
        seconds /= self.party.model.sustained()
        busiest = int(seconds.argmax())
        # What went before the last had entered is not on the links any more.
        duration = float(alone.max())
        self._on_links = min(float(seconds[busiest]) / duration, 1.0) if duration else 0.0

        # In bytes of the busiest link: of each other the bundle takes what its load is beside that
        # one's.
        self._rate = float(self.shared_links.shared.network.capacities[links[busiest]])
        self._route = Routes(links[None], np.zeros(1), (loads / loads[busiest])[None])

        order = np.argsort(alone, kind="stable")
        gaps = alone[order]
        gaps[1:] -= gaps[:-1].copy()
        gaps[gaps <= _SAME * duration] = 0.0
        # The next to leave stands last, where it is popped.
        self._legs = list(zip(order.tolist(), gaps.tolist(), strict=True))[::-1]
        self._go_on()

    def _go_on(self) -> None:
        """Let those leave that are through, and go on to where the next one leaves."""
        through = []
        while self._legs and not self._legs[-1][1]:
            through.append(self._legs.pop()[0])
        self.leave(through)
        if self._legs:
            place, seconds = self._legs[-1]
            # All the way to where it leaves is under way: nothing of it is left to go.
            self._legs[-1] = place, 0.0
            off_links = seconds * (1 - self._on_links)
            self.shared_links.shared.after(off_links, partial(self._send, seconds * self._on_links))

    def _send(self, seconds: float) -> None:
        """Send what the busiest link carries in ``seconds``."""
        size = np.array([seconds * self._rate])
        self.shared_links.shared.fluid.send(self._route, size, lambda _: self._go_on())

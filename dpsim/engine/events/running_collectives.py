"""One collective of one group of workers: the workers that have entered, and when each leaves.

Alone on its links, it ends for each rank at the time that its model computes from the ranks'
starts. With other traffic it runs message by message, or as one bundle with its share of each link.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import simpy

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.budget import check
from dpsim.engine.events.sending import Span
from dpsim.network import CollectiveModel, Outcome, SharedNetwork
from dpsim.topology import Routes

_SAME = 1e-12  # relative: smaller differences in leaving times count as none
# s after now: the assumed start of ranks that have not entered yet.
_FAR = 1e6


@dataclass(slots=True)
class SharedLinks:
    """The network that running collectives share, and its links that several of them load.

    ``rested_at`` is when the links' token buckets will be full again (s).
    """

    shared: SharedNetwork
    contended: IntArray
    rested_at: float = float("-inf")

    @property
    def env(self) -> simpy.Environment:
        """The clock of the run."""
        return self.shared.env


class Party(NamedTuple):
    """A group of workers: each rank's place in the ``model`` of their collective."""

    place: dict[int, int]
    model: CollectiveModel


class RunningCollective(ABC):
    """One collective of ``nbytes`` of one party."""

    def __init__(self, shared_links: SharedLinks, party: Party, nbytes: int, span: Span) -> None:
        check()
        self.shared_links = shared_links
        self.env = shared_links.env
        self.party = party
        self.nbytes = nbytes
        self.span = span
        self.starts = np.full(len(party.place), np.nan)
        self.missing = len(party.place)
        self._leaving: dict[int, simpy.Event] = {}

    def join(self, rank: int) -> simpy.Event:
        """Let ``rank`` enter now; the returned event happens when it leaves."""
        place = self.party.place[rank]
        event = self._leaving[place] = self.env.event()
        self.starts[place] = self.span.last_start = self.env.now
        self.missing -= 1
        self.entered(place)
        return event

    @abstractmethod
    def entered(self, place: int) -> None:
        """Handle that the rank at ``place`` has entered."""

    def leave(self, places: Iterable[int]) -> None:
        """Let the ranks at ``places`` leave now."""
        self.leave_at(places, [self.env.now] * len(self.starts))

    def leave_at(self, places: Iterable[int], times: list[float]) -> None:
        """Let each rank at ``places`` leave at its time in ``times`` (s)."""
        env, span = self.env, self.span
        now = env.now
        for place in places:
            event, end = self._leaving.pop(place), times[place]
            # Triggered now with a delay: one event per rank instead of two.
            event._ok, event._value = True, None
            env.schedule(event, delay=max(end - now, 0.0))
            span.last_end = max(span.last_end, end)


class Together(RunningCollective):
    """A collective that no rank leaves before all have entered, alone on its links."""

    def entered(self, place: int) -> None:
        """Compute when all ranks leave once the last one has entered."""
        if not self.missing:
            self.leave_at(range(len(self.starts)), self.outcome().finishes.tolist())

    def outcome(self) -> Outcome:
        """Return when each rank leaves, and the bytes on each link, by the model."""
        shared_links = self.shared_links
        outcome = self.party.model.finish_after(self.starts, self.nbytes, shared_links.rested_at)
        shared_links.rested_at = outcome.rested_at
        return outcome


class OneByOne(RunningCollective):
    """A collective that some ranks may leave before all have entered, alone on its links.

    A rank leaves early if the missing ranks cannot affect it: the model is asked as if they entered
    far in the future.
    """

    _scheduled = False

    def entered(self, place: int) -> None:
        """Ask the model once all ranks of this instant have entered."""
        if not self._scheduled:
            self._scheduled = True
            self.env.timeout(0).callbacks.append(self._ask)

    def _ask(self, _: simpy.Event) -> None:
        self._scheduled = False
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
    """A collective simulated message by message, over links that others may use too."""

    def __init__(self, shared_links: SharedLinks, party: Party, nbytes: int, span: Span) -> None:
        super().__init__(shared_links, party, nbytes, span)
        self._enter_ranks = party.model.play(
            shared_links.shared, nbytes, lambda ranks: self.leave(ranks.tolist())
        )
        self._entering: list[int] = []

    def entered(self, place: int) -> None:
        """Collect the ranks that enter at one instant, to let them enter together."""
        self._entering.append(place)
        if len(self._entering) == 1:
            self.env.timeout(0).callbacks.append(self._enter)

    def _enter(self, _: simpy.Event) -> None:
        entering, self._entering = self._entering, []
        self._enter_ranks(np.array(entering))


class Bundle(Together):
    """A collective as one flow, from when the last rank has entered until the last has left.

    The flow occupies the contended links for as long as the busiest of them needs for its bytes at
    the rate that the model sustains. The rest of its time (latencies, sums, other links) does not
    depend on other traffic. Ranks that leave earlier are points along the flow.
    """

    def entered(self, place: int) -> None:
        """Start the bundle once the last rank has entered."""
        if self.missing:
            return
        outcome, contended = self.outcome(), self.shared_links.contended
        loads = outcome.loads[contended]
        links = contended[loads > 0]
        if not len(links):
            self.leave_at(range(len(self.starts)), outcome.finishes.tolist())
            return
        undisturbed = np.maximum(outcome.finishes - self.env.now, 0.0)
        self._start(links, loads[loads > 0], undisturbed)

    def _start(self, links: IntArray, loads: FloatArray, undisturbed: FloatArray) -> None:
        """Start the flow; rank i leaves after ``alone[i]`` s if no one else uses ``links``."""
        seconds = loads / self.shared_links.shared.network.capacities[links]
        # The part of a link that a library cannot use is not available to other collectives either.
        seconds /= self.party.model.sustained()
        busiest = int(seconds.argmax())
        # Bytes sent before the last rank had entered are no longer on the links.
        duration = float(undisturbed.max())
        self._on_links = min(float(seconds[busiest]) / duration, 1.0) if duration else 0.0

        # In bytes of the busiest link; the bundle uses every other link in proportion to its load
        # there.
        self._rate = float(self.shared_links.shared.network.capacities[links[busiest]])
        self._route = Routes(links[None], np.zeros(1), (loads / loads[busiest])[None])

        order = np.argsort(undisturbed, kind="stable")
        gaps = undisturbed[order]
        gaps[1:] -= gaps[:-1].copy()
        gaps[gaps <= _SAME * duration] = 0.0
        # The next to leave comes last, where it is popped.
        self._legs = list(zip(order.tolist(), gaps.tolist(), strict=True))[::-1]
        self._go_on()

    def _go_on(self) -> None:
        """Let the ranks that have finished leave, and continue to where the next one leaves."""
        through = []
        while self._legs and not self._legs[-1][1]:
            through.append(self._legs.pop()[0])
        self.leave(through)
        if self._legs:
            place, seconds = self._legs[-1]
            # The whole way to the point where it leaves is under way, so no gap remains.
            self._legs[-1] = place, 0.0
            off_links = seconds * (1 - self._on_links)
            self.shared_links.shared.after(off_links, partial(self._send, seconds * self._on_links))

    def _send(self, seconds: float) -> None:
        """Send as many bytes as the busiest link carries in ``seconds``."""
        size = np.array([seconds * self._rate])
        self.shared_links.shared.fluid.send(self._route, size, lambda _: self._go_on())

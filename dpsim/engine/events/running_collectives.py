"""A running collective of one group: which workers have entered, and when each leaves.

Without other traffic on its links, each rank leaves when the collective's model says. With other
traffic it is simulated message by message, or as one bundle with its share of each link.
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

_TOLERANCE = 1e-12  # relative: smaller differences in leaving times count as none
# s from now: when ranks that have not entered yet are assumed to enter.
_FAR = 1e6


@dataclass(slots=True)
class SharedLinks:
    """The network that running collectives share, and its links that several of them load.

    ``refilled_at`` is when the links' token buckets will be full again (s).
    """

    shared: SharedNetwork
    contended: IntArray
    refilled_at: float = float("-inf")

    @property
    def env(self) -> simpy.Environment:
        """The clock of the run."""
        return self.shared.env


class RankGroup(NamedTuple):
    """The ``model`` of a group's collective, and the index of each rank in it."""

    index_of: dict[int, int]
    model: CollectiveModel


class RunningCollective(ABC):
    """A collective of ``nbytes`` bytes of one group."""

    def __init__(
        self, shared_links: SharedLinks, group: RankGroup, nbytes: int, span: Span
    ) -> None:
        check()
        self.shared_links = shared_links
        self.env = shared_links.env
        self.group = group
        self.nbytes = nbytes
        self.span = span
        self.starts = np.full(len(group.index_of), np.nan)
        self.missing = len(group.index_of)
        self._leaving: dict[int, simpy.Event] = {}

    def join(self, rank: int) -> simpy.Event:
        """Let ``rank`` enter now; the returned event is triggered when it leaves."""
        index = self.group.index_of[rank]
        event = self._leaving[index] = self.env.event()
        self.starts[index] = self.span.last_start = self.env.now
        self.missing -= 1
        self.entered(index)
        return event

    @abstractmethod
    def entered(self, index: int) -> None:
        """Handle that the rank at ``index`` has entered."""

    def leave(self, indices: Iterable[int]) -> None:
        """Let the ranks at ``indices`` leave now."""
        self.leave_at(indices, [self.env.now] * len(self.starts))

    def leave_at(self, indices: Iterable[int], times: list[float]) -> None:
        """Let each rank at ``indices`` leave at its time in ``times`` (s)."""
        env, span = self.env, self.span
        now = env.now
        for index in indices:
            event, end = self._leaving.pop(index), times[index]
            # Triggered now with a delay: one event per rank instead of two.
            event._ok, event._value = True, None
            env.schedule(event, delay=max(end - now, 0.0))
            span.last_end = max(span.last_end, end)


class Rendezvous(RunningCollective):
    """A collective that no rank leaves before all have entered; here, without other traffic."""

    def entered(self, index: int) -> None:
        """Compute when all ranks leave once the last one has entered."""
        if not self.missing:
            self.leave_at(range(len(self.starts)), self.outcome().finishes.tolist())

    def outcome(self) -> Outcome:
        """Return when each rank leaves, and the bytes on each link, by the model."""
        shared_links = self.shared_links
        outcome = self.group.model.finish_after(self.starts, self.nbytes, shared_links.refilled_at)
        shared_links.refilled_at = outcome.refilled_at
        return outcome


class EarlyExit(RunningCollective):
    """A collective without other traffic that some ranks may leave before all have entered.

    A rank leaves early if the missing ranks cannot affect it. To find out, the model is asked when
    ranks leave if the missing ones enter far in the future.
    """

    _scheduled = False

    def entered(self, index: int) -> None:
        """Ask the model once all ranks of this instant have entered."""
        if not self._scheduled:
            self._scheduled = True
            self.env.timeout(0).callbacks.append(self._ask)

    def _ask(self, _: simpy.Event) -> None:
        self._scheduled = False
        far = self.env.now + _FAR
        starts = np.where(np.isnan(self.starts), far, self.starts)
        model, shared_links = self.group.model, self.shared_links
        outcome = model.finish_after(starts, self.nbytes, shared_links.refilled_at)
        if not self.missing:
            shared_links.refilled_at = outcome.refilled_at
        times = outcome.finishes.tolist()
        known = [index for index in self._leaving if times[index] < far]
        self.leave_at(known, times)


class ByMessages(RunningCollective):
    """A collective simulated message by message, on links that other traffic may use too."""

    def __init__(
        self, shared_links: SharedLinks, group: RankGroup, nbytes: int, span: Span
    ) -> None:
        super().__init__(shared_links, group, nbytes, span)
        self._enter_ranks = group.model.run_by_messages(
            shared_links.shared, nbytes, lambda ranks: self.leave(ranks.tolist())
        )
        self._entering: list[int] = []

    def entered(self, index: int) -> None:
        """Collect the ranks that enter at one instant, to let them enter together."""
        self._entering.append(index)
        if len(self._entering) == 1:
            self.env.timeout(0).callbacks.append(self._enter)

    def _enter(self, _: simpy.Event) -> None:
        entering, self._entering = self._entering, []
        self._enter_ranks(np.array(entering))


class Bundle(Rendezvous):
    """A collective as one flow, which starts when the last rank has entered.

    The flow occupies the contended links for as long as the busiest of them needs for its bytes at
    the rate that the model sustains. The rest of its time (latencies, sums, other links) does not
    depend on other traffic. Ranks that leave earlier are points along the flow.
    """

    def entered(self, index: int) -> None:
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
        """Start the flow; without other traffic rank i leaves after ``undisturbed[i]`` s."""
        seconds = loads / self.shared_links.shared.network.capacities[links]
        # What a library cannot use of a link's rate, other collectives cannot use either.
        seconds /= self.group.model.sustained()
        busiest = int(seconds.argmax())
        # Bytes sent before the last rank had entered are no longer on the links.
        duration = float(undisturbed.max())
        self._on_links = min(float(seconds[busiest]) / duration, 1.0) if duration else 0.0

        # The flow's size is the bytes on the busiest link; it uses other links in proportion.
        self._rate = float(self.shared_links.shared.network.capacities[links[busiest]])
        self._route = Routes(links[None], np.zeros(1), (loads / loads[busiest])[None])

        order = np.argsort(undisturbed, kind="stable")
        gaps = undisturbed[order]
        gaps[1:] -= gaps[:-1].copy()
        gaps[gaps <= _TOLERANCE * duration] = 0.0
        # Reversed, so that the next to leave is popped from the end.
        self._legs = list(zip(order.tolist(), gaps.tolist(), strict=True))[::-1]
        self._go_on()

    def _go_on(self) -> None:
        """Let the ranks that have finished leave, and continue until the next one does."""
        finished = []
        while self._legs and not self._legs[-1][1]:
            finished.append(self._legs.pop()[0])
        self.leave(finished)
        if self._legs:
            index, seconds = self._legs[-1]
            # The whole gap is sent now, so that nothing remains when the send ends.
            self._legs[-1] = index, 0.0
            off_links = seconds * (1 - self._on_links)
            self.shared_links.shared.after(off_links, partial(self._send, seconds * self._on_links))

    def _send(self, seconds: float) -> None:
        """Send as many bytes as the busiest link carries in ``seconds``."""
        size = np.array([seconds * self._rate])
        self.shared_links.shared.fluid.send(self._route, size, lambda _: self._go_on())

"""Messages over links with rate limiters, piece by piece.

Queues, windows, and what a limiter saves up while it is idle.

A limiter is a token bucket: it passes ``rate`` B/s in the order in which bytes come, and after a
pause what it has not used, at most ``burst`` s of its rate, at once. As a virtual clock (the
generic cell rate algorithm, ITU-T I.371): bytes S whose first comes at t and last at u have left at
max(u, clock), with clock = max(clock, t - burst) + S / rate. Pieces cut through: the next limiter
begins with the first byte. While n limiters have bytes waiting, of rates that add up to R, each
takes 1 + n (``stall`` + ``contention`` R) times as long; why is not proved: probably because timers
of the same processors serve them, which the bytes keep busy, and what a late one could have passed
is lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

from dpsim.base.budget import check

_BETWEEN_CHECKS = 1024  # events
_SMALLEST = 8192  # bytes of a piece: about a packet
_LARGEST = 32768
_EMPTY = 1e-6
_PIECES = 16  # that a message is cut into, within those bounds


class EventQueue:
    """Events in order of time; those of one moment in the order in which they were asked for."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def at(self, moment: float, action: Callable[[], None]) -> None:
        """Call ``action`` at ``moment`` (s), now at the earliest."""
        heapq.heappush(self._events, (max(moment, self.now), next(self._numbers), action))

    def after(self, delay: float, action: Callable[[], None]) -> None:
        """Call ``action`` after ``delay`` seconds."""
        self.at(self.now + delay, action)

    def run(self) -> None:
        """Let everything happen."""
        while self._events:
            check()
            for _ in range(min(len(self._events), _BETWEEN_CHECKS)):
                self.now, _, action = heapq.heappop(self._events)
                action()


class RateLimiter:
    """A link that passes ``rate`` B/s and saves up ``burst`` s, of which ``missing`` are used at
    the start.
    """

    __slots__ = ("burst", "clock", "rate")

    def __init__(self, rate: float, burst: float, missing: float = 0.0) -> None:
        self.rate = rate
        self.burst = burst
        self.clock = missing - burst

    def passes(self, first: float, last: float, nbytes: float, slower: float) -> float:
        """When the last of ``nbytes`` has left whose first came at ``first`` and last at ``last``."""
        self.clock = max(self.clock, first - self.burst) + nbytes / self.rate * slower
        return max(last, self.clock)


class LinkMessage(NamedTuple):
    """``nbytes`` along ``path``; ``handed`` is called when at most ``buffer`` are left to come,
    ``done`` when all have.

    ``take(bytes, then)`` is what the destination does with each piece before it counts as come.
    """

    path: Sequence[int]
    nbytes: float
    buffer: float
    handed: Callable[[], None]
    done: Callable[[], None]
    take: Callable[[float, Callable[[], None]], None]


class RateLimitedLinks:
    """Links that messages share, in the time of ``events``; limiters are known by number."""

    def __init__(
        self,
        events: EventQueue,
        limiters: Sequence[RateLimiter],
        *,
        window: float,
        queue: float,
        stall: float,
        contention: float,
    ) -> None:
        self.events = events
        self.limiters = limiters
        self.window = window
        self.queue = queue
        self.stall = stall
        self.contention = contention

    def send(self, message: LinkMessage) -> None:
        """Send a message, at most ``window`` bytes of it on the way."""
        _Sending(self, message).go_on()

    def move(
        self,
        path: Sequence[int],
        nbytes: float,
        arrived: Callable[[], None],
        left: Callable[[], None] | None = None,
    ) -> None:
        """Pass ``nbytes`` along the path in one piece; ``left`` is called when it has passed the
        first limiter.
        """
        self._hop(path, 0, self.events.now, nbytes, arrived)
        if left is not None:
            self.events.at(
                max(self.events.now, self.limiters[path[0]].clock) if path else self.events.now,
                left,
            )

    def _hop(
        self, path: Sequence[int], hop: int, last: float, nbytes: float, arrived: Callable[[], None]
    ) -> None:
        """The piece's first byte is at limiter ``hop`` now; its last comes there at ``last``."""
        if hop == len(path):
            self.events.at(last, arrived)
            return
        now = self.events.now
        limiter = self.limiters[path[hop]]
        left = limiter.passes(now, last, nbytes, self._slower(now))
        self.events.at(
            left - nbytes / limiter.rate, lambda: self._hop(path, hop + 1, left, nbytes, arrived)
        )

    def _slower(self, now: float) -> float:
        """How many times as long everything takes, for the limiters that have bytes waiting."""
        if not (self.stall or self.contention):
            return 1.0
        busy = [one.rate for one in self.limiters if one.clock > now]
        return 1 + len(busy) * (self.stall + self.contention * sum(busy))


class _Sending:
    """A message under way."""

    def __init__(self, links: RateLimitedLinks, message: LinkMessage) -> None:
        self.links = links
        self.message = message
        self.to_send = self.to_come = message.nbytes
        self.piece = min(max(message.nbytes / _PIECES, _SMALLEST), _LARGEST)
        self.window, self.queue = max(links.window, self.piece), max(links.queue, self.piece)
        self.fresh = links.window  # bytes that may still wait at the sender's link without limit
        self.queued = 0.0
        self.handed: Callable[[], None] | None = message.handed

    def go_on(self) -> None:
        """Send what window and queue have room for."""
        while self.to_send > 0:
            piece = min(self.piece, self.to_send)
            on_the_way = self.to_come - self.to_send
            if on_the_way + piece > self.window + _EMPTY or (
                self.fresh < piece and self.queued + piece > self.queue + _EMPTY
            ):
                break
            self.to_send -= piece
            self.fresh -= piece
            self.queued += piece
            self.links.move(
                self.message.path, piece, partial(self._arrived, piece), partial(self._left, piece)
            )
        if self.to_come <= max(self.message.buffer, _EMPTY):
            self._hand_over()

    def _hand_over(self) -> None:
        if self.handed is not None:
            handed, self.handed = self.handed, None
            handed()

    def _left(self, piece: float) -> None:
        self.queued -= piece
        self.go_on()

    def _arrived(self, piece: float) -> None:
        self.message.take(piece, partial(self._taken, piece))

    def _taken(self, piece: float) -> None:
        self.to_come -= piece
        self.go_on()
        if self.to_come <= _EMPTY:
            self.message.done()

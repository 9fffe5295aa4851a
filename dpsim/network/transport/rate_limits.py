"""Messages over links with rate limiters, simulated piece by piece.

Messages queue, wait for windows, and use tokens that a limiter has saved up while it was idle.

A limiter is a token bucket: it passes ``rate`` B/s in the order in which bytes arrive, and after a
pause the unused amount, at most ``burst`` s of its rate, at once. As a virtual clock (the generic
cell rate algorithm, ITU-T I.371): bytes S whose first arrives at t and last at u have left at
max(u, clock), with clock = max(clock, t - burst) + S / rate. Pieces cut through: the next limiter
begins with the first byte. While n limiters have bytes waiting, of rates that add up to R, each
takes 1 + n (``stall`` + ``contention`` R) times as long. The cause is not proven: probably timers
on the same processors, kept busy by the bytes, serve the limiters, and a late timer loses the bytes
that it could have passed.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count

from dpsim.base.budget import check
from dpsim.hardware import Transport

_BETWEEN_CHECKS = 1024  # events between two checks of the time limit
_EMPTY = 1e-6  # bytes left by rounding

# The number of pieces of a message, and the least (about a packet) and most bytes of each.
_PIECES = 16
_SMALLEST = 8192
_LARGEST = 32768


class EventQueue:
    """Events in order of time; events of one moment in the order in which they were added."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()

    def at(self, moment: float, action: Callable[[], None]) -> None:
        """Call ``action`` at ``moment`` (s), but not before now."""
        now = self.now
        event = (moment if moment > now else now, next(self._numbers), action)
        heapq.heappush(self._events, event)

    def after(self, delay: float, action: Callable[[], None]) -> None:
        """Call ``action`` after ``delay`` seconds."""
        self.at(self.now + delay, action)

    def run(self) -> None:
        """Run all events."""
        events, pop = self._events, heapq.heappop
        while events:
            check()
            for _ in range(min(len(events), _BETWEEN_CHECKS)):
                self.now, _, action = pop(events)
                action()


class RateLimiter:
    """A link that passes ``rate`` B/s and saves up ``burst`` s of it.

    ``missing`` s of the burst are used up at the start.
    """

    __slots__ = ("burst", "clock", "rate")

    def __init__(self, rate: float, burst: float, missing: float = 0.0) -> None:
        self.rate = rate
        self.burst = burst
        self.clock = missing - burst

    def passes(self, first: float, last: float, nbytes: float, factor: float) -> float:
        """Return when the last of ``nbytes``, arriving from ``first`` to ``last`` (s), leaves."""
        # Not `max`, which would double the time of this call, made for hundreds of thousands of
        # pieces.
        earliest = first - self.burst  # at most ``burst`` is saved up
        begin = self.clock if self.clock > earliest else earliest
        self.clock = clock = begin + nbytes / self.rate * factor
        return clock if clock > last else last


class RateLimitedLinks:
    """Links that messages share, in the time of ``events``, with the windows of ``transport``."""

    def __init__(
        self, events: EventQueue, limiters: Sequence[RateLimiter], transport: Transport
    ) -> None:
        self.events = events
        self.limiters = limiters
        self.window = transport.window
        self.queue = transport.queue
        self.buffer = transport.buffer
        self.stall = transport.stall
        self.contention = transport.contention

    def move(
        self,
        path: Sequence[int],
        nbytes: float,
        arrived: Callable[[], None],
        left: Callable[[], None] | None = None,
    ) -> None:
        """Pass ``nbytes`` along the path in one piece.

        ``left`` is called when it has passed the first limiter.
        """
        now = self.events.now
        self._hop(path, 0, now, nbytes, arrived)
        if left is not None:
            passed = self.limiters[path[0]].clock if path else now
            self.events.at(passed, left)

    def _hop(
        self, path: Sequence[int], hop: int, last: float, nbytes: float, arrived: Callable[[], None]
    ) -> None:
        """Pass a piece through limiter ``hop``, where its last byte arrives at ``last`` (s)."""
        if hop == len(path):
            self.events.at(last, arrived)
            return
        now = self.events.now
        limiter = self.limiters[path[hop]]
        # Cut through: the next limiter begins when the first byte has left this one, which is the
        # time of all bytes at its own rate before the last leaves.
        left = limiter.passes(now, last, nbytes, self._slowdown(now))
        first_byte_left = left - nbytes / limiter.rate
        onwards = partial(self._hop, path, hop + 1, left, nbytes, arrived)
        self.events.at(first_byte_left, onwards)

    def _slowdown(self, now: float) -> float:
        """Return the factor on all times, from the limiters that have bytes waiting."""
        if not (self.stall or self.contention):
            return 1.0
        busy, rates = 0, 0.0
        for one in self.limiters:
            if one.clock > now:
                busy += 1
                rates += one.rate
        return 1 + busy * (self.stall + self.contention * rates)


class LinkMessage:
    """A message of ``nbytes`` along ``path``, the numbers of the limiters on the way.

    At most ``window`` bytes of it are in flight. ``handed`` is called when at most ``buffer`` bytes
    are left to arrive, ``done`` when all have arrived. ``take(bytes, then)`` is the destination's
    work on each piece before it counts as arrived.
    """

    def __init__(
        self,
        links: RateLimitedLinks,
        path: Sequence[int],
        nbytes: float,
        handed: Callable[[], None],
        done: Callable[[], None],
        take: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self.links = links
        self.path = path
        self.done = done
        self.take = take
        self.to_send = nbytes
        self.to_come = nbytes
        self.piece = min(max(nbytes / _PIECES, _SMALLEST), _LARGEST)
        # Room for at least one piece, otherwise nothing would ever leave.
        self.window = max(links.window, self.piece)
        self.queue = max(links.queue, self.piece)
        self.fresh = links.window  # bytes that may still queue at the sender's link without limit
        self.queued = 0.0
        self.handed: Callable[[], None] | None = handed

    def send_more(self) -> None:
        """Send as much as window and queue allow."""
        while self.to_send > 0:
            piece = min(self.piece, self.to_send)
            if not self._has_room(piece):
                break
            self.to_send -= piece
            self.fresh -= piece
            self.queued += piece
            arrived, left = partial(self._arrived, piece), partial(self._left, piece)
            self.links.move(self.path, piece, arrived, left)
        if self.to_come <= max(self.links.buffer, _EMPTY):
            self._hand_over()

    def _has_room(self, piece: float) -> bool:
        on_the_way = self.to_come - self.to_send
        if on_the_way + piece > self.window + _EMPTY:
            return False
        return self.fresh >= piece or self.queued + piece <= self.queue + _EMPTY

    def _hand_over(self) -> None:
        if self.handed is not None:
            handed, self.handed = self.handed, None
            handed()

    def _left(self, piece: float) -> None:
        self.queued -= piece
        self.send_more()

    def _arrived(self, piece: float) -> None:
        self.take(piece, partial(self._taken, piece))

    def _taken(self, piece: float) -> None:
        self.to_come -= piece
        self.send_more()
        if self.to_come <= _EMPTY:
            self.done()

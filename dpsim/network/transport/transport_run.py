"""A running collective over a transport: its ranks, processors and messages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.hardware import Transport
from dpsim.network.transport.rank_programs import Programs, Stage
from dpsim.network.transport.rate_limits import (
    EventQueue,
    LinkMessage,
    RateLimitedLinks,
    RateLimiter,
)


class TransportRun:
    """A running collective, from the first rank's entry to the last rank's end.

    Ranks enter at ``starts`` (s) and run their ``programs``. ``paths[a][b]`` has the numbers of the
    ``limiters`` on the way from rank a to rank b. A post takes ``dispatch`` s of a program's own
    code, a reduction ``gamma`` s a byte.
    """

    def __init__(
        self,
        transport: Transport,
        programs: Programs,
        paths: list[list[tuple[int, ...]]],
        limiters: list[RateLimiter],
        starts: FloatArray,
        *,
        dispatch: float,
        gamma: float,
    ) -> None:
        self.transport = transport
        self.paths = paths
        self.gamma = gamma
        self.latency = transport.latency or 0.0
        self.dispatch = dispatch
        self.posting = transport.overhead + self.dispatch
        self.events = EventQueue()
        self.links = RateLimitedLinks(self.events, limiters, transport)
        ranks = len(starts)
        self.processors = _Processors(self.events, transport.cores, ranks)
        self.pairs: dict[tuple[int, int], _Pair] = {}
        self._ends = np.array(starts, dtype=np.float64)
        for rank, program in enumerate(programs):
            worker = _Worker(self, rank, program)
            self.events.after(float(starts[rank]), worker.enter)

    def ends(self) -> tuple[FloatArray, float]:
        """Return when each rank ends, and when the links' buckets are full again (s)."""
        if len(self._ends) > 1:
            self.events.run()
        # A limiter is full again a whole burst after its virtual clock.
        refilled = float("-inf")
        for limiter in self.links.limiters:
            refilled = max(refilled, limiter.clock + limiter.burst)
        return self._ends, refilled

    def ended(self, rank: int) -> None:
        """Record that a rank has ended."""
        self._ends[rank] = self.events.now

    def pair(self, source: int, destination: int) -> _Pair:
        """Return the messages from one rank to another."""
        key = (source, destination)
        if key not in self.pairs:
            self.pairs[key] = _Pair(self, source, destination)
        return self.pairs[key]


class _Processors:
    """Processors that all ranks share.

    They handle requests in order, for each rank one at a time.
    """

    def __init__(self, events: EventQueue, cores: int, ranks: int) -> None:
        self.events = events
        self._free = [0.0] * (cores or ranks)  # 0 cores: as many as there are ranks
        self._rank_free = [0.0] * ranks

    def work(self, rank: int, *parts: tuple[float, Callable[[], None]]) -> None:
        """Do each part, (seconds, then), after the previous one for ``rank``.

        All parts run on one processor without interruption.
        """
        total = 0.0
        for seconds, _ in parts:
            total += seconds
        if not total:
            for _, then in parts:
                then()
            return
        core = self._free.index(min(self._free))  # the first that is free
        end = max(self.events.now, self._free[core], self._rank_free[rank])
        for seconds, then in parts:
            end += seconds
            self.events.at(end, then)
        self._free[core] = end
        self._rank_free[rank] = end


class _Pair:
    """Messages from one rank to another, one after the other."""

    def __init__(self, run: TransportRun, source: int, destination: int) -> None:
        self.run = run
        self.source = source
        self.destination = destination
        self.path = run.paths[source][destination]
        self.back = run.paths[destination][source]
        self._sends: deque[tuple[int, Callable[[], None]]] = deque()  # posted
        self._receives: deque[Callable[[], None]] = deque()  # announced, and known to the source
        self._ready: deque[tuple[float, Callable[[], None], Callable[[], None]]] = deque()
        self._busy = False

    def announce(self, received: Callable[[], None]) -> None:
        """Announce the destination's wait for the next message to the source."""
        run = self.run

        def come() -> None:
            run.events.after(run.latency, partial(self._announced, received))

        run.links.move(self.back, run.transport.header, come)

    def post(self, nbytes: int, sent: Callable[[], None]) -> None:
        """Add a message that the source sends."""
        self._sends.append((nbytes, sent))
        self._match()

    def _announced(self, received: Callable[[], None]) -> None:
        self._receives.append(received)
        self._match()

    def _match(self) -> None:
        # TCP keeps the order: the first message posted goes to the first receive announced.
        while self._sends and self._receives:
            nbytes, sent = self._sends.popleft()
            received = self._receives.popleft()
            hand_over = partial(self._hand_over, nbytes, sent, received)
            self.run.processors.work(self.source, (self.run.transport.overhead, hand_over))

    def _hand_over(
        self, nbytes: int, sent: Callable[[], None], received: Callable[[], None]
    ) -> None:
        transport = self.run.transport
        self._ready.append((nbytes + transport.header, sent, received))
        self._go_on()

    def _go_on(self) -> None:
        if self._busy or not self._ready:
            return
        self._busy = True
        nbytes, sent, received = self._ready.popleft()
        finished = partial(self._finished, received)
        LinkMessage(self.run.links, self.path, nbytes, sent, finished, self._take).send_more()

    def _take(self, nbytes: float, taken: Callable[[], None]) -> None:
        """Let the destination's processor handle arrived data."""
        self.run.processors.work(self.destination, (nbytes * self.run.transport.per_byte, taken))

    def _finished(self, received: Callable[[], None]) -> None:
        # The next message may leave now; the last byte arrives at the other end only after the
        # latency.
        self._busy = False
        self._go_on()
        run = self.run
        last = (run.transport.overhead, received)
        run.events.after(run.latency, partial(run.processors.work, self.destination, last))


class _Worker:
    """One rank, running its program."""

    def __init__(self, run: TransportRun, rank: int, program: tuple[Stage, ...]) -> None:
        self.run = run
        self.rank = rank
        self._stages = deque(program)
        self._open: list[int] = []  # messages of each step that are not done yet
        self._stage = Stage(())
        self._posted = 0
        self._taken = 0

    def enter(self) -> None:
        """Start."""
        self.run.processors.work(self.rank, (self.run.transport.entry, self._next_stage))

    def _next_stage(self) -> None:
        if not self._stages:
            self.run.ended(self.rank)
            return
        self._stage = self._stages.popleft()
        self._open = [len(step.receives) + len(step.sends) for step in self._stage.steps]
        self._posted = 0
        self._taken = 0
        self._go_on()

    def _go_on(self) -> None:
        """Post the next step if fewer than ``depth`` are under way.

        Otherwise finish the oldest one, once its messages are done.
        """
        run = self.run
        steps = self._stage.steps
        under_way = self._posted - self._taken
        if self._posted < len(steps) and under_way < self._stage.depth:
            step = steps[self._posted]
            # One piece of work: receives are posted before sends.
            receives = (len(step.receives) * run.posting, self._announce)
            sends = (len(step.sends) * run.posting, self._post)
            run.processors.work(self.rank, receives, sends)
        elif self._taken == len(steps):
            self._next_stage()
        elif not self._open[self._taken]:
            reduced = steps[self._taken].reduced
            adding = reduced * run.gamma + (run.dispatch if reduced else 0.0)
            run.processors.work(self.rank, (adding, self._take))

    def _announce(self) -> None:
        """Announce the receives of the next step; its sends come after them."""
        number = self._posted
        for peer, _ in self._stage.steps[number].receives:
            pair = self.run.pair(peer, self.rank)
            pair.announce(partial(self._done, number))

    def _post(self) -> None:
        number = self._posted
        self._posted += 1
        for peer, nbytes in self._stage.steps[number].sends:
            pair = self.run.pair(self.rank, peer)
            pair.post(nbytes, partial(self._done, number))
        self._go_on()

    def _take(self) -> None:
        self._taken += 1
        self._go_on()

    def _done(self, number: int) -> None:
        """Mark a message of step ``number`` as done; continue if the rank waits for it."""
        self._open[number] -= 1
        all_posted = self._posted == len(self._stage.steps)
        full = self._posted - self._taken == self._stage.depth
        if (all_posted or full) and number == self._taken and not self._open[number]:
            self._go_on()

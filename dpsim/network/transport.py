"""Times a collective as processes carry it out over TCP: processors that are shared, announcements, buffered sends, limiters.

A rank posts a step's receives, then its sends. A receive is announced to the sender over the same links; data goes once both the
announcement has come and the send is posted, in the order of posting between two ranks. A send is done when all but what the
kernel buffers is on its way, a receive when all has come. Each post, send and arrival takes ``overhead`` s of one of the machine's
``cores`` (a post of a program's own ``dispatch`` s more), what comes ``per_byte`` s a byte, adding up ``gamma`` s a byte, and
entering the collective ``entry`` s, ``wake`` s after it was to begin; processors take what is asked of them in that order, one
thing at a time for each rank. Links are those of `dpsim.network.limited`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from dpsim.calibration import Transport
from dpsim.collectives import IN_NETWORK, Schedule, algorithm, algorithm_names
from dpsim.errors import DpsimError
from dpsim.network.choice import schedule_on
from dpsim.network.fastest import FastestModel
from dpsim.network.gloo import segment_count
from dpsim.network.limited import Clock, LimitedLinks, Limiter, Message
from dpsim.network.model import Ability, CollectiveModel, Outcome
from dpsim.network.programs import Phase, Program, gloo_programs, schedule_programs
from dpsim.network.rounds import RoundsModel
from dpsim.topology.network import FloatArray, Network

_KEPT = 4096  # timings


class TransportModel(CollectiveModel):
    """One collective by ``schedule``, or by gloo's own all-reduce, over ``transport`` on ``network``."""

    abilities = Ability.OWN_STARTS | Ability.UNEVEN_OVERLAP

    def __init__(
        self, network: Network, transport: Transport, schedule: Schedule | None = None, *, gamma: float = 0.0, itemsize: int = 4
    ) -> None:
        self.network = network
        self.transport = transport
        self.own = schedule is None
        self.schedule = schedule or algorithm("ring").schedule(network.ranks)
        self.itemsize = itemsize
        self.gamma = gamma if transport.gamma is None else transport.gamma
        self._loads = RoundsModel(self.schedule, network, itemsize=itemsize)
        self._timed: dict[tuple[int, float, bytes], tuple[FloatArray, float]] = {}

    def finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        """When each rank leaves (s) that enters at ``starts`` (s), with ``nbytes`` a vector; links are rested before."""
        return self.finish_after(starts, nbytes, float("-inf"))

    def finish_after(self, starts: FloatArray, nbytes: int, rested_at: float) -> Outcome:
        """The same where the links, all alike, have saved up only what they will not until ``rested_at``."""
        begin = float(starts.min())
        missing = min(max(rested_at - begin, 0.0), self.transport.burst)
        key = (nbytes, round(missing, 6), np.round(starts - begin, 7).tobytes())
        if key not in self._timed:
            if len(self._timed) >= _KEPT:
                self._timed.clear()
            self._timed[key] = _Run(self, starts - begin, nbytes, missing).ends()
        ends, rested = self._timed[key]
        return Outcome(begin + ends, self._loads.loads(nbytes), begin + rested)

    def programs(self, nbytes: int) -> list[tuple[int, Program]]:
        """What each rank does, in each channel."""
        if self.own:
            return gloo_programs(self.network.ranks, nbytes, segment_count(self.network.ranks, nbytes), self.itemsize)
        return schedule_programs(self.schedule, nbytes, self.itemsize)

    @cached_property
    def paths(self) -> list[list[tuple[int, ...]]]:
        """For each pair of ranks the limiters on the way."""
        ranks = self.network.ranks
        source, destination = (each.ravel() for each in np.indices((ranks, ranks)))
        apart = np.flatnonzero(source != destination)
        routes = self.network.routes(source[apart], destination[apart])
        limits = self._limits
        number = {link: place for place, link in enumerate(np.flatnonzero(limits).tolist())}
        paths: list[list[tuple[int, ...]]] = [[() for _ in range(ranks)] for _ in range(ranks)]
        for pair, links in zip(apart, routes.links.tolist(), strict=True):
            paths[source[pair]][destination[pair]] = tuple(number[link] for link in links if link in number)
        return paths

    @cached_property
    def _limits(self) -> NDArray[np.bool_]:
        """Which links can be full: none that is as many times as fast as any pair's slowest one as there are ranks."""
        ranks = np.arange(self.network.ranks)
        routes = self.network.routes(ranks, np.roll(ranks, 1))
        capacities = np.append(self.network.capacities, np.inf)
        return self.network.capacities < float(capacities[routes.links].min(axis=1).max()) * self.network.ranks

    def limiters(self, missing: float) -> list[Limiter]:
        """The links that can be full; ``missing`` s of what they can save up are used."""
        rates = self.network.capacities[self._limits].tolist()
        return [Limiter(rate, self.transport.burst, missing) for rate in rates]


class _Run:
    """One collective under way."""

    def __init__(self, model: TransportModel, starts: FloatArray, nbytes: int, missing: float) -> None:
        transport = model.transport
        self.model = model
        self.transport = transport
        self.latency = transport.latency or 0.0
        self.posting = transport.overhead + (0.0 if model.own else transport.dispatch)
        self.clock = Clock()
        self.links = LimitedLinks(
            self.clock,
            model.limiters(missing),
            window=transport.window,
            queue=transport.queue,
            stall=transport.stall,
            contention=transport.contention,
        )
        ranks = len(starts)
        self.processors = _Processors(self.clock, transport.cores, ranks)
        self.pairs: dict[tuple[int, int, int], _Pair] = {}
        self._ends = np.array(starts, dtype=np.float64)
        for number, (rank, program) in enumerate(model.programs(nbytes)):
            worker = _Worker(self, rank, number // ranks, program)
            self.clock.after(float(starts[rank]) + transport.wake, worker.enter)

    def ends(self) -> tuple[FloatArray, float]:
        """When each rank has done everything, and when the links are rested, s."""
        if self.model.network.ranks > 1:
            self.clock.run()
        return self._ends, max((limiter.clock + limiter.burst for limiter in self.links.limiters), default=float("-inf"))

    def ended(self, rank: int) -> None:
        self._ends[rank] = max(self._ends[rank], self.clock.now)

    def pair(self, source: int, destination: int, channel: int) -> _Pair:
        """The messages between two ranks in one direction; each channel's are told apart, but share the links."""
        key = (source, destination, channel)
        if key not in self.pairs:
            self.pairs[key] = _Pair(self, source, destination)
        return self.pairs[key]


class _Processors:
    """Processors that all ranks share: work in the order in which it was asked for, one thing at a time for each rank."""

    def __init__(self, clock: Clock, cores: int, ranks: int) -> None:
        self.clock = clock
        self._free = [0.0] * (cores or ranks)
        self._rank_free = [0.0] * ranks

    def work(self, rank: int, *parts: tuple[float, Callable[[], None]]) -> None:
        """Do (seconds, then) after (seconds, then) for ``rank`` on one processor, without anything between."""
        if not any(seconds > 0 for seconds, _ in parts):
            for _, then in parts:
                then()
            return
        core = min(range(len(self._free)), key=self._free.__getitem__)
        end = max(self.clock.now, self._free[core], self._rank_free[rank])
        for seconds, then in parts:
            end += seconds
            self.clock.at(end, then)
        self._free[core] = self._rank_free[rank] = end


class _Pair:
    """Messages from one rank to another, one after the other."""

    def __init__(self, run: _Run, source: int, destination: int) -> None:
        self.run = run
        self.source, self.destination = source, destination
        self.path = run.model.paths[source][destination]
        self.back = run.model.paths[destination][source]
        self._sends: deque[tuple[int, Callable[[], None]]] = deque()
        self._receives: deque[Callable[[], None]] = deque()  # announced
        self._ready: deque[tuple[float, Callable[[], None], Callable[[], None]]] = deque()
        self._busy = False

    def announce(self, received: Callable[[], None]) -> None:
        """The destination waits for the next message: the source hears of it later."""
        run = self.run
        heard = lambda: run.clock.after(run.latency, lambda: self._heard(received))  # noqa: E731
        run.links.move(self.back, run.transport.header, heard)

    def post(self, nbytes: int, sent: Callable[[], None]) -> None:
        """The source has a message to send."""
        self._sends.append((nbytes, sent))
        self._match()

    def _heard(self, received: Callable[[], None]) -> None:
        self._receives.append(received)
        self._match()

    def _match(self) -> None:
        while self._sends and self._receives:
            (nbytes, sent), received = self._sends.popleft(), self._receives.popleft()
            hand_over = partial(self._hand_over, nbytes, sent, received)
            self.run.processors.work(self.source, (self.run.transport.overhead, hand_over))

    def _hand_over(self, nbytes: int, sent: Callable[[], None], received: Callable[[], None]) -> None:
        transport = self.run.transport
        self._ready.append((nbytes + transport.header, sent, received))
        self._go_on()

    def _go_on(self) -> None:
        if self._ready and not self._busy:
            self._busy = True
            nbytes, sent, received = self._ready.popleft()
            message = Message(self.path, nbytes, self.run.transport.buffer, sent, lambda: self._through(received), self._take)
            self.run.links.send(message)

    def _take(self, nbytes: float, taken: Callable[[], None]) -> None:
        """The destination's processor takes up what has come."""
        self.run.processors.work(self.destination, (nbytes * self.run.transport.per_byte, taken))

    def _through(self, received: Callable[[], None]) -> None:
        run = self.run
        self._busy = False
        self._go_on()
        run.clock.after(run.latency, lambda: run.processors.work(self.destination, (run.transport.overhead, received)))


class _Worker:
    """One rank in one channel, going through its program."""

    def __init__(self, run: _Run, rank: int, channel: int, program: Program) -> None:
        self.run = run
        self.rank = rank
        self.channel = channel
        self._phases = deque(program)
        self._open: list[int] = []  # messages of each step that are not done yet
        self._phase = Phase(())
        self._posted = self._taken = 0

    def enter(self) -> None:
        """Begin."""
        self.run.processors.work(self.rank, (self.run.transport.entry, self._next_phase))

    def _next_phase(self) -> None:
        if not self._phases:
            self.run.ended(self.rank)
            return
        self._phase = self._phases.popleft()
        self._open = [len(step.receives) + len(step.sends) for step in self._phase.steps]
        self._posted = self._taken = 0
        self._go_on()

    def _go_on(self) -> None:
        """Post the next step where fewer than ``depth`` are under way, else take the oldest when it is done."""
        steps = self._phase.steps
        if self._posted < len(steps) and self._posted - self._taken < self._phase.depth:
            step, posting = steps[self._posted], self.run.posting
            receives, sends = len(step.receives) * posting, len(step.sends) * posting
            self.run.processors.work(self.rank, (receives, self._announce), (sends, self._post))
        elif self._taken == len(steps):
            self._next_phase()
        elif not self._open[self._taken]:
            reduced = steps[self._taken].reduced
            self.run.processors.work(self.rank, (reduced * self.run.model.gamma, self._take))

    def _announce(self) -> None:
        """The receives of the next step are posted; its sends come after them."""
        number, step = self._posted, self._phase.steps[self._posted]
        for peer, _ in step.receives:
            self.run.pair(peer, self.rank, self.channel).announce(lambda: self._done(number))

    def _post(self) -> None:
        number, step = self._posted, self._phase.steps[self._posted]
        self._posted += 1
        for peer, nbytes in step.sends:
            self.run.pair(self.rank, peer, self.channel).post(nbytes, lambda: self._done(number))
        self._go_on()

    def _take(self) -> None:
        self._taken += 1
        self._go_on()

    def _done(self, number: int) -> None:
        """A message of step ``number`` is done; the rank wakes where it waits for that."""
        self._open[number] -= 1
        waits = self._posted == len(self._phase.steps) or self._posted - self._taken == self._phase.depth
        if waits and number == self._taken and not self._open[number]:
            self._go_on()


MOST_RANKS = 64
"""More ranks than this are not simulated message by message."""


def transport_model(
    name: str, network: Network, transport: Transport, *, operation: str = "all-reduce", library: str = "ideal", gamma: float = 0.0
) -> CollectiveModel | None:
    """The model of ``operation`` by the algorithm ``name`` (``auto``: the fastest) or by gloo, each on a measured transport.

    None where this is not for it: other libraries, switches that reduce, more than `MOST_RANKS` ranks, or a profile that says
    nothing of processors and limiters.
    """
    if not transport.detailed or network.ranks > MOST_RANKS or library not in ("ideal", "gloo") or name == IN_NETWORK:
        return None
    if library == "gloo":
        return TransportModel(network, transport, gamma=gamma) if operation == "all-reduce" else None
    if name != "auto":
        return TransportModel(network, transport, _schedule(name, operation, network), gamma=gamma)
    candidates: dict[str, CollectiveModel] = {}
    for one in algorithm_names(operation):
        with suppress(DpsimError):  # not for these nodes
            candidates[one] = TransportModel(network, transport, _schedule(one, operation, network), gamma=gamma)
    return FastestModel(network.ranks, candidates, lambda chosen: None)


def _schedule(name: str, operation: str, network: Network) -> Schedule:
    return schedule_on(network, algorithm(name, operation))

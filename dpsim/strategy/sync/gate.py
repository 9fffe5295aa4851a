"""The synchronisation rule of a run: which gradients count, and who may go on.

A gate receives events in the order in which they happened: a worker handed over its gradient, went
on, or left. Its answers depend only on these. It uses no time, network or threads, so simulated
servers, emulated servers on threads and servers that train can all use the same object.

Version v of the parameters exists when updates 0 to v - 1 are applied. A gradient is *held* until
its update has enough gradients, and then *applied*; it is *dropped* if its update was made without
it. A worker reads a version when it begins an iteration, hands over its gradient at the end, and
goes on when the gate permits.

With collectives, each round is an update, and the same rule is evaluated on vectors over the
workers (`Gate.takes_part`, `Gate.versions`): how many workers start a round (`quorum`), how far a
worker may run ahead of the rounds (`lag`), and which gradients are lost (`Gate.counts`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray, IntArray

DROPPED = -1  # in place of the update of a gradient that is part of none
# A kind that overrides one of these has a rule that collectives do not follow.
_ON_EVENTS = frozenset({"hand_over", "may_go_on", "go_on", "leave", "update_of", "staleness"})
_ON_VECTORS = frozenset(
    {"quorum_ready_at", "takes_part", "versions", "versions_behind", "stalenesses"}
)


class GradientOutcome(Enum):
    """What happens to a gradient when it is handed over."""

    APPLIED = "applied"
    HELD = "held"
    DROPPED = "dropped"


class Clocks:
    """The iterations that each of ``workers`` workers has done; `slowest` is kept up to date."""

    def __init__(self, workers: int) -> None:
        self.slowest = 0
        self.active = workers
        self._clocks = [0] * workers
        self._workers_at = Counter({0: workers})

    def __len__(self) -> int:
        return len(self._clocks)

    def __getitem__(self, worker: int) -> int:
        return self._clocks[worker]

    def tick(self, worker: int) -> None:
        """Count one more iteration of ``worker``."""
        self._workers_at[self._clocks[worker]] -= 1
        self._clocks[worker] += 1
        self._workers_at[self._clocks[worker]] += 1
        self._advance()

    def leave(self, worker: int) -> None:
        """Remove ``worker``: the others are no longer compared with it."""
        self._workers_at[self._clocks[worker]] -= 1
        self.active -= 1
        self._advance()

    def _advance(self) -> None:
        """Advance `slowest` to the first clock with a worker, if any worker is left."""
        # Clocks only grow, so all calls together take as many rounds as there are iterations. A
        # minimum over all workers at every tick would take that many times the workers.
        while self.active and not self._workers_at[self.slowest]:
            del self._workers_at[self.slowest]
            self.slowest += 1


class Gate(ABC):
    """The rule for ``workers`` workers, all of which have begun on version 0.

    ``gradients``: how many make an update if workers are asynchronous. ``quorum``: how many workers
    must be ready for a collective to start; the others contribute zeros or a late gradient.
    ``lag``: steps that a worker may run ahead of the collectives. ``drops``: a gradient that
    arrives after its update is lost, instead of becoming part of a later one.
    """

    in_rounds: ClassVar[bool] = False
    """Whether quorum, lag and `counts` state the whole rule, so that collectives can follow it.

    False for a kind that overrides a method for events, unless it sets this itself. Overriding a
    method on vectors raises TypeError.
    """

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        own = vars(cls).keys()
        if changed := sorted(_ON_VECTORS & own):
            raise TypeError(
                f"{cls.__name__} must say its rule by quorum, lag and counts, which servers and "
                f"collectives read alike, but has a {changed[0]} of its own"
            )
        if _ON_EVENTS & own and "in_rounds" not in own:
            cls.in_rounds = False

    def __init__(
        self, workers: int, gradients: int, quorum: int, *, lag: int = 0, drops: bool = False
    ) -> None:
        self.gradients = gradients
        self.quorum = quorum
        self.lag = lag
        self.version = 0
        self.clocks = Clocks(workers)
        self._drops_late = drops
        self._read = [0] * workers
        self._update = [0] * workers
        self._held: list[int] = []

    @property
    def barrier(self) -> bool:
        """Whether all workers end each step together, even if they could be asynchronous."""
        # False for a single worker, which waits for no one.
        return 1 < len(self.clocks) == self.gradients

    @property
    def drops(self) -> bool:
        """Whether a gradient may be lost."""
        return self._drops_late or type(self).counts is not Gate.counts

    @property
    def gathers(self) -> bool:
        """Whether an asynchronous update takes gradients of several workers."""
        return self.gradients > 1 or self.drops

    @property
    @abstractmethod
    def turn(self) -> int:
        """A counter: when it grows, some waiting workers may go on."""

    def counts(self, read: int | IntArray, update: int | IntArray) -> bool | NDArray[np.bool_]:
        """Return whether a gradient computed on ``read`` may be part of ``update``, the next one.

        Takes numbers, or arrays of equal shapes.
        """
        # A newer version than the one it read means that its update was made without it.
        return (not self._drops_late) | (read == update)

    def hand_over(self, worker: int) -> GradientOutcome:
        """Tick the clock of ``worker``, and return the outcome of the gradient it hands over."""
        self.clocks.tick(worker)
        # With too few workers left no update completes, and a held gradient would wait forever.
        too_few_left = self.clocks.active < self.gradients
        if too_few_left or not self.counts(self._read[worker], self.version):
            self._update[worker] = DROPPED
            return GradientOutcome.DROPPED
        self._update[worker] = self.version
        self._held.append(worker)
        if len(self._held) < self.gradients:
            return GradientOutcome.HELD
        self._held.clear()
        self.version += 1
        return GradientOutcome.APPLIED

    @abstractmethod
    def may_go_on(self, worker: int) -> bool:
        """Return whether ``worker``, after handing over, may begin its next iteration."""

    def go_on(self, worker: int) -> int:
        """Begin the next iteration of ``worker``, and return the version that it reads."""
        self._read[worker] = self.version
        return self.version

    def leave(self, worker: int) -> None:
        """Remove ``worker``, which begins no further iteration, so that no one waits for it.

        Held gradients are dropped if too few workers are left to complete their update.
        """
        self.clocks.leave(worker)
        if self.clocks.active < self.gradients:
            for other in self._held:
                self._update[other] = DROPPED
            self._held.clear()

    def update_of(self, worker: int) -> int:
        """Return the update that the worker's last gradient is part of, `DROPPED` for none."""
        return self._update[worker]

    def staleness(self, worker: int) -> int:
        """Return the updates between what its last gradient read and its update, or `DROPPED`.

        Call this before `go_on`, which replaces the version that the worker has read.
        """
        update = self._update[worker]
        return DROPPED if update == DROPPED else update - self._read[worker]

    def quorum_ready_at(self, ready: FloatArray) -> float:
        """Return the time at which enough workers are ready; worker i is ready at ``ready[i]``."""
        # A partition finds the time of the last required worker without sorting all.
        last = self.quorum - 1
        return float(np.partition(ready, last)[last])

    def takes_part(self, ready: FloatArray) -> FloatArray:
        """Return when each worker takes part in a collective: late ones when it starts."""
        # A late worker's communication thread contributes zeros or an older gradient: a partial
        # collective (Li et al., PPoPP 2020).
        return np.minimum(ready, self.quorum_ready_at(ready))

    def versions(
        self, starts: FloatArray, done: FloatArray, rounds: Sequence[tuple[float, float]]
    ) -> tuple[IntArray, IntArray]:
        """Return the version that each gradient is computed on, and the update that it is part of.

        ``starts`` and ``done``, both (steps, workers), are when the worker began to compute and
        when its gradient was ready; ``rounds`` holds the begin and end of each step's collective,
        an update each. A gradient goes into the first collective that begins after it is ready, if
        it still `counts`. A worker has read all rounds that it waits for, which are all except the
        last ``lag``, even if it receives them earlier than others or only at the layer that needs
        them.
        """
        read, update = self._in_rounds(starts, done, rounds)
        counted = self.counts(*self._extrapolated(read, update, starts, done, rounds))
        return read, np.where(counted, update, DROPPED)

    def _in_rounds(
        self, starts: FloatArray, done: FloatArray, rounds: Sequence[tuple[float, float]]
    ) -> tuple[IntArray, IntArray]:
        """Return the version that each gradient is computed on, and its first possible update."""
        # Collectives of one communicator run in order, but time stamps of real ranks may cross by
        # the time that their threads take to wake up; the search needs ascending times.
        begins = np.maximum.accumulate(np.array([begin for begin, _ in rounds]))
        ends = np.maximum.accumulate(np.array([end for _, end in rounds]))
        own = np.arange(len(starts))[:, None]
        # Shapes are (steps, workers). A gradient has missed the rounds that began before it was
        # ready. An early gradient still waits for the round of its own step.
        update = np.maximum(np.searchsorted(begins, done, side="left"), own)
        read = np.maximum(np.searchsorted(ends, starts, side="right"), own - self.lag)
        return read, update

    def _extrapolated(
        self,
        read: IntArray,
        update: IntArray,
        starts: FloatArray,
        done: FloatArray,
        rounds: Sequence[tuple[float, float]],
    ) -> tuple[IntArray, IntArray]:
        """Return ``read`` and ``update`` as if rounds continued after the last one.

        If workers need not keep pace, slow ones still work when the last round is over. The others
        would continue, so gradients handed over later are late by the rounds at their rate.
        """
        if self.quorum == starts.shape[1]:
            return read, update
        begins, ends = (np.array(times) for times in zip(*rounds, strict=True))
        # Seconds from one round to the next, if the fast workers went on.
        each = float(begins.max() - starts.min()) / len(rounds)
        if each <= 0:
            return read, update
        return (
            read + _rounds_since(ends.max(), starts, each),
            update + _rounds_since(begins.max(), done, each),
        )

    def stalenesses(
        self, starts: FloatArray, done: FloatArray, rounds: Sequence[tuple[float, float]]
    ) -> tuple[IntArray, IntArray]:
        """Return each worker's lead in iterations when it begins one, and `versions_behind`.

        Without ``rounds``, workers have their own models, and no gradient is behind.
        """
        gaps = _clock_gaps(starts, done)
        behind = self.versions_behind(starts, done, rounds) if rounds else np.zeros_like(gaps)
        return gaps, behind

    def versions_behind(
        self, starts: FloatArray, done: FloatArray, rounds: Sequence[tuple[float, float]]
    ) -> IntArray:
        """Return the updates between reading and applying each gradient, `DROPPED` if lost.

        The arguments are those of `versions`.
        """
        rounds_of = self._in_rounds(starts, done, rounds)
        read, update = self._extrapolated(*rounds_of, starts, done, rounds)
        behind = np.maximum(update - read, 0)
        return np.where(self.counts(read, update), behind, DROPPED)


def _clock_gaps(starts: FloatArray, done: FloatArray) -> IntArray:
    """Return by how many iterations each worker leads the slowest when it begins one.

    ``starts`` and ``done`` are (steps, workers): when the worker began to compute and when its
    gradient was ready.
    """
    # When the last worker's gradient of each step was ready: the slowest worker has finished as
    # many steps as there are such times before a start.
    slowest = np.maximum.accumulate(done.max(axis=1))
    finished = np.searchsorted(slowest, starts, side="right")
    return np.asarray(np.maximum(np.arange(len(starts))[:, None] - finished, 0))


def _rounds_since(last: float, times: FloatArray, each: float) -> IntArray:
    """Return how many rounds would follow the ``last`` one up to ``times``, one per ``each`` s."""
    return np.asarray(np.maximum(np.floor((times - last) / each), 0).astype(np.int64))


class QuorumGate(Gate):
    """``quorum`` gradients make an update; their workers go on when it is applied.

    With ``drops`` a gradient counts only if it was computed on the newest version; otherwise it is
    part of the next update. With fewer workers left than the quorum there are no more updates.
    """

    in_rounds: ClassVar[bool] = True

    def __init__(self, workers: int, quorum: int, *, lag: int = 0, drops: bool = False) -> None:
        super().__init__(workers, quorum, quorum, lag=lag, drops=drops)

    @property
    def turn(self) -> int:
        """The version, which grows with each update."""
        return self.version

    def may_go_on(self, worker: int) -> bool:
        """Return whether its gradient is applied or dropped."""
        # `DROPPED` is below every version.
        return self._update[worker] < self.version


class BarrierGate(QuorumGate):
    """All gradients of a step make its update: every worker waits for all others."""

    barrier = True

    def __init__(self, workers: int, *, lag: int = 0) -> None:
        super().__init__(workers, workers, lag=lag)

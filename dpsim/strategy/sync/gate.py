"""The rule of a run: who may begin, which gradient counts, who may go on, what a version is.

A gate is told what happened, in the order in which it happened: a worker handed over its gradient,
went on, or left. It answers from that alone. It knows no time, network or thread, so that simulated
servers, emulated ones on threads and servers that train all ask the same object.

Version v of the parameters is there when the updates 0 to v - 1 are applied. What a gradient
belongs to is an update: it is *applied* with the last gradient that its update needs, *held* until
then, and *dropped* where its update was made without it. A worker reads a version as it begins an
iteration, hands over its gradient at the end of it, and goes on when the gate lets it.

A collective makes an update of each of its rounds. There the same rule is read off vectors over
the workers (`Gate.takes_part`, `Gate.versions`): who begins a round (`quorum`), how far a worker
may run ahead of the rounds (`lag`), and which gradients are lost (`Gate.counts`).
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

DROPPED = -1  # the update of a gradient that is part of none
# A kind that changes one of these has a rule of its own, which collectives may not know.
_TOLD = frozenset({"hand_over", "may_go_on", "go_on", "leave", "update_of", "staleness"})
_READ_OFF = frozenset({"enough_at", "takes_part", "versions", "versions_behind", "stalenesses"})


class GradientOutcome(Enum):
    """What becomes of a gradient when it is handed over."""

    APPLIED = "applied"
    HELD = "held"
    DROPPED = "dropped"


class Clocks:
    """How many iterations each of ``workers`` workers has done; `slowest` costs nothing to ask."""

    def __init__(self, workers: int) -> None:
        self.slowest = 0
        self.living = workers
        self._clocks = [0] * workers
        self._workers_at = Counter({0: workers})

    def __len__(self) -> int:
        return len(self._clocks)

    def __getitem__(self, worker: int) -> int:
        return self._clocks[worker]

    def tick(self, worker: int) -> None:
        """``worker`` has done one more iteration."""
        self._workers_at[self._clocks[worker]] -= 1
        self._clocks[worker] += 1
        self._workers_at[self._clocks[worker]] += 1
        self._advance()

    def leave(self, worker: int) -> None:
        """``worker`` does no more: the others are no longer compared with it."""
        self._workers_at[self._clocks[worker]] -= 1
        self.living -= 1
        self._advance()

    def _advance(self) -> None:
        """Move on to the first clock that somebody is at; where nobody is left, stay."""
        # Clocks only grow, so that all calls together take as many rounds as there are iterations;
        # a minimum over all workers at every tick would take workers times as many.
        while self.living and not self._workers_at[self.slowest]:
            del self._workers_at[self.slowest]
            self.slowest += 1


class Gate(ABC):
    """The rule for ``workers`` workers, all of which have begun on version 0.

    ``gradients``: how many make an update where each worker goes its own way. ``quorum``: how many
    workers must be there for a collective to begin; the others take part with what they have.
    ``lag``: steps that a worker may run ahead of what it communicated in a collective. ``drops``: a
    gradient that comes after its update is lost, instead of part of a later one.
    """

    in_rounds: ClassVar[bool] = False
    """Whether quorum, lag and `counts` say all of the rule, so that collectives can keep it.

    Not where a kind has methods of its own for what it is told, unless it says so again. Raises
    TypeError for a kind that changes what is read off vectors.
    """

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        own = vars(cls).keys()
        if changed := sorted(_READ_OFF & own):
            raise TypeError(
                f"{cls.__name__} must say its rule by quorum, lag and counts, which servers and "
                f"collectives read alike, but has a {changed[0]} of its own"
            )
        if _TOLD & own and "in_rounds" not in own:
            cls.in_rounds = False

    def __init__(
        self, workers: int, gradients: int, quorum: int, *, lag: int = 0, drops: bool = False
    ) -> None:
        self.gradients = gradients
        self.quorum = quorum
        self.lag = lag
        self.version = 0
        self.clocks = Clocks(workers)
        self._late_are_lost = drops
        self._read = [0] * workers
        self._update = [0] * workers
        self._held: list[int] = []

    @property
    def barrier(self) -> bool:
        """Whether all workers end each step together, also where each could go its own way."""
        # A single one has nobody to meet, and goes its way as it would beside others.
        return 1 < len(self.clocks) == self.gradients

    @property
    def drops(self) -> bool:
        """Whether a gradient may be lost."""
        return self._late_are_lost or type(self).counts is not Gate.counts

    @property
    def gathers(self) -> bool:
        """Whether an update is of several workers, where each goes its own way, or of one."""
        return self.gradients > 1 or self.drops

    @property
    @abstractmethod
    def turn(self) -> int:
        """What those wait for that may not go on: when it grows, some of them may."""

    def counts(self, read: int | IntArray, update: int | IntArray) -> bool | NDArray[np.bool_]:
        """Whether a gradient computed on version ``read`` may be part of ``update``, the next one.

        Asked of numbers or of arrays of them, of equal shapes.
        """
        # Its update was made without it, as soon as a version is there that it had not read.
        return (not self._late_are_lost) | (read == update)

    def hand_over(self, worker: int) -> GradientOutcome:
        """What becomes of the gradient that ``worker`` has handed over, which ticks its clock."""
        self.clocks.tick(worker)
        # With too few workers left no update is ever complete: to hold it would be to wait forever.
        hopeless = self.clocks.living < self.gradients
        if hopeless or not self.counts(self._read[worker], self.version):
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
        """Whether ``worker``, which has handed over its gradient, may begin its next iteration."""

    def go_on(self, worker: int) -> int:
        """``worker`` begins its next iteration, on the version that is the answer."""
        self._read[worker] = self.version
        return self.version

    def leave(self, worker: int) -> None:
        """``worker`` begins no further iteration: nobody may wait for it.

        What is held is dropped, if too few are left to make an update of it.
        """
        self.clocks.leave(worker)
        if self.clocks.living < self.gradients:
            for other in self._held:
                self._update[other] = DROPPED
            self._held.clear()

    def update_of(self, worker: int) -> int:
        """The update that its last gradient is part of, `DROPPED` for none."""
        return self._update[worker]

    def staleness(self, worker: int) -> int:
        """Updates between what its last gradient was computed on and its own, or `DROPPED`.

        Ask before it goes on, which makes another version the one that it has read.
        """
        update = self._update[worker]
        return DROPPED if update == DROPPED else update - self._read[worker]

    def enough_at(self, there: FloatArray) -> float:
        """When enough workers are there, of which worker i is there at ``there[i]``."""
        # A partition finds the time of the last who is waited for without sorting all.
        last = self.quorum - 1
        return float(np.partition(there, last)[last])

    def takes_part(self, there: FloatArray) -> FloatArray:
        """When each worker takes part in a collective: those that come late, from its begin on."""
        # A late worker's communication thread takes part for it, with zeros or an older gradient:
        # a partial collective (Li et al., PPoPP 2020).
        return np.minimum(there, self.enough_at(there))

    def versions(
        self, starts: FloatArray, done: FloatArray, rounds: Sequence[tuple[float, float]]
    ) -> tuple[IntArray, IntArray]:
        """The version that each gradient is computed on and the update that it is part of.

        ``starts`` and ``done``, both (steps, workers), are when its worker began to compute and
        when it was there; ``rounds`` the begin and end of each step's collective, an update each. A
        gradient goes into the first that begins when it is there, if it still `counts`. A worker
        has read whatever it waits for, all but the last ``lag`` rounds, even where it has them
        before the others do or only as it comes to the layer that needs them.
        """
        read, update = self._in_rounds(starts, done, rounds)
        counted = self.counts(*self._going_on(read, update, starts, done, rounds))
        return read, np.where(counted, update, DROPPED)

    def _in_rounds(
        self, starts: FloatArray, done: FloatArray, rounds: Sequence[tuple[float, float]]
    ) -> tuple[IntArray, IntArray]:
        """The version that each gradient is computed on and the first update that it comes to."""
        # Collectives of one communicator run in order, but what real ranks stamp may cross by the
        # time that their threads take to wake up; a search needs it ascending.
        begins = np.maximum.accumulate(np.array([begin for begin, _ in rounds]))
        ends = np.maximum.accumulate(np.array([end for _, end in rounds]))
        own = np.arange(len(starts))[:, None]
        # Shapes are (steps, workers): as many rounds as begin before a gradient is there, it has
        # missed. One that is there early still waits for that of its own step.
        update = np.maximum(np.searchsorted(begins, done, side="left"), own)
        read = np.maximum(np.searchsorted(ends, starts, side="right"), own - self.lag)
        return read, update

    def _going_on(
        self,
        read: IntArray,
        update: IntArray,
        starts: FloatArray,
        done: FloatArray,
        rounds: Sequence[tuple[float, float]],
    ) -> tuple[IntArray, IntArray]:
        """``read`` and ``update``, were there more rounds.

        Where workers need not keep pace, the slow ones still work when the last round is over. The
        others would go on, so that rounds would come as often as before: what is handed over then
        is as many of them late.
        """
        if self.quorum == starts.shape[1]:
            return read, update
        begins, ends = (np.array(times) for times in zip(*rounds, strict=True))
        # Seconds from one round to the next, were the fast workers to go on.
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
        """How many iterations ahead each worker begins one, and its `versions_behind`.

        Without ``rounds``, of workers with models of their own, those are as many versions old as
        steps.
        """
        gaps = _clock_gaps(starts, done)
        behind = self.versions_behind(starts, done, rounds) if rounds else np.zeros_like(gaps)
        return gaps, behind

    def versions_behind(
        self, starts: FloatArray, done: FloatArray, rounds: Sequence[tuple[float, float]]
    ) -> IntArray:
        """Updates between the reading and the applying of each gradient, `DROPPED` where it is not.

        The arguments are those of `versions`.
        """
        rounds_of = self._in_rounds(starts, done, rounds)
        read, update = self._going_on(*rounds_of, starts, done, rounds)
        behind = np.maximum(update - read, 0)
        return np.where(self.counts(read, update), behind, DROPPED)


def _clock_gaps(starts: FloatArray, done: FloatArray) -> IntArray:
    """How many iterations each worker is ahead of the slowest as it begins one.

    ``starts`` and ``done`` are (steps, workers): when it began to compute and when its gradient was
    there.
    """
    # By step, when the last worker had its gradient: as many steps as that lies before a start, the
    # slowest had done by then.
    slowest = np.maximum.accumulate(done.max(axis=1))
    finished = np.searchsorted(slowest, starts, side="right")
    return np.asarray(np.maximum(np.arange(len(starts))[:, None] - finished, 0))


def _rounds_since(last: float, times: FloatArray, each: float) -> IntArray:
    """How many rounds would have come from the ``last`` one to ``times``, one in ``each`` s."""
    return np.asarray(np.maximum(np.floor((times - last) / each), 0).astype(np.int64))


class QuorumGate(Gate):
    """``quorum`` gradients together are an update; who gave one goes on when it is applied.

    With ``drops`` a gradient counts only if it was computed on the newest version; without, it is
    part of the next update. With fewer workers left than a quorum there are no updates any more.
    """

    in_rounds: ClassVar[bool] = True

    def __init__(self, workers: int, quorum: int, *, lag: int = 0, drops: bool = False) -> None:
        super().__init__(workers, quorum, quorum, lag=lag, drops=drops)

    @property
    def turn(self) -> int:
        """The next update."""
        return self.version

    def may_go_on(self, worker: int) -> bool:
        """When its gradient is applied; at once if that is dropped."""
        # `DROPPED` is below every version.
        return self._update[worker] < self.version


class BarrierGate(QuorumGate):
    """All gradients of a step are its update: every worker waits for all others."""

    barrier = True

    def __init__(self, workers: int, *, lag: int = 0) -> None:
        super().__init__(workers, workers, lag=lag)

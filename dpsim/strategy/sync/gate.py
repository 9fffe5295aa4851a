"""The rule of a run: who may begin, which gradient counts, who may go on, what a version is.

A gate is told what happened, in the order in which it happened: a worker handed over its gradient,
went on, or left. It answers from that alone. It knows no time, network or thread, so that simulated
servers, emulated ones on threads and servers that train all ask the same object.

Version v of the parameters is there when the updates 0 to v - 1 are applied. What a gradient
belongs to is an update: it is *applied* with the last gradient that its update needs, *held* until
then, and *dropped* where its update was made without it. A worker reads a version as it begins an
iteration, hands over its gradient at the end of it, and goes on when the gate lets it.

Where all workers meet in one collective, there is nothing to tell one after the other: the same
questions are asked of vectors over the workers (`Gate.takes_part`, `Gate.versions`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import ClassVar

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray

DROPPED = -1  # the update of a gradient that is part of none


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

    ``quorum``: how many must be there for a collective to begin; the others take part with what
    they have. ``lag``: steps that a worker may run ahead of what it communicated in a collective.
    ``drops``: a gradient that comes after its update is lost, instead of part of a later one.
    """

    barrier: ClassVar[bool] = False
    """Whether all workers end each step together, also where each could go its own way."""

    def __init__(self, workers: int, quorum: int, *, lag: int = 0, drops: bool = False) -> None:
        self.quorum = quorum
        self.lag = lag
        self.drops = drops
        self.version = 0
        self.clocks = Clocks(workers)
        self._read = [0] * workers
        self._update = [0] * workers

    @property
    def gathers(self) -> bool:
        """Whether an update is of several workers, where each goes its own way, or of one."""
        return False

    @property
    @abstractmethod
    def turn(self) -> int:
        """What those wait for that may not go on: when it grows, some of them may."""

    def hand_over(self, worker: int) -> GradientOutcome:
        """What becomes of the gradient that ``worker`` has handed over, which ticks its clock."""
        self.clocks.tick(worker)
        return self._judge(worker)

    @abstractmethod
    def _judge(self, worker: int) -> GradientOutcome:
        """What becomes of the gradient that ``worker`` has just handed over."""

    @abstractmethod
    def may_go_on(self, worker: int) -> bool:
        """Whether ``worker``, which has handed over its gradient, may begin its next iteration."""

    def go_on(self, worker: int) -> int:
        """``worker`` begins its next iteration, on the version that is the answer."""
        self._read[worker] = self.version
        return self.version

    def leave(self, worker: int) -> None:
        """``worker`` begins no further iteration: nobody may wait for it."""
        self.clocks.leave(worker)

    def update_of(self, worker: int) -> int:
        """The update that its last gradient is part of, `DROPPED` for none."""
        return self._update[worker]

    def staleness(self, worker: int) -> int:
        """Updates between what its last gradient was computed on and its own, or `DROPPED`.

        Ask before it goes on, which makes another version the one that it has read.
        """
        update = self._update[worker]
        return DROPPED if update == DROPPED else update - self._read[worker]

    def _commit(self) -> None:
        """An update is complete: it makes a version."""
        self.version += 1

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
        gradient goes into the first that begins when it is there; where late ones are dropped, only
        into that of its own step. A worker has read whatever it waits for, all but the last ``lag``
        rounds, even where it has them before the others do or only as it comes to the layer that
        needs them.
        """
        # Collectives of one communicator run in order, but what real ranks stamp may cross by the
        # time that their threads take to wake up; a search needs it ascending.
        begins = np.maximum.accumulate(np.array([begin for begin, _ in rounds]))
        ends = np.maximum.accumulate(np.array([end for _, end in rounds]))
        own = np.arange(len(starts))[:, None]
        enters = np.searchsorted(begins, done, side="left")
        late = enters > own
        # Shapes are (steps, workers): as many rounds as begin before a gradient is there, it has
        # missed. One that is there early still waits for that of its own step.
        gave = np.where(late & self.drops, DROPPED, np.maximum(enters, own))
        there = np.searchsorted(ends, starts, side="right")
        read = np.maximum(there, own - self.lag)
        return read, gave

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

        The arguments are those of `versions`. Where workers need not keep pace, the slow ones still
        work when the last round is over. The others would go on, so that rounds would come as often
        as before: what is handed over then is as many of them late.
        """
        read, gave = self.versions(starts, done, rounds)
        if self.quorum < starts.shape[1]:
            begins, ends = (np.array(times) for times in zip(*rounds, strict=True))
            # Seconds from one round to the next, were the fast workers to go on.
            each = float(begins.max()) / len(rounds)
            if each > 0:
                gave = gave + np.where(gave == DROPPED, 0, _rounds_since(begins.max(), done, each))
                read = read + _rounds_since(ends.max(), starts, each)
        behind = np.maximum(gave - read, 0)
        return np.asarray(np.where(gave == DROPPED, DROPPED, behind))


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

    def __init__(self, workers: int, quorum: int, *, lag: int = 0, drops: bool = False) -> None:
        super().__init__(workers, quorum, lag=lag, drops=drops)
        self._held: list[int] = []

    @property
    def gathers(self) -> bool:
        """A quorum's: all but that of one which loses nothing, where each makes an update."""
        return self.quorum > 1 or self.drops

    @property
    def turn(self) -> int:
        """The next update."""
        return self.version

    def _judge(self, worker: int) -> GradientOutcome:
        # Its update was made without it, as soon as a version is there that it had not read.
        too_late = self.drops and self._read[worker] != self.version
        # With too few workers left no update is ever complete: to hold it would be to wait forever.
        hopeless = self.clocks.living < self.quorum
        if too_late or hopeless:
            self._update[worker] = DROPPED
            return GradientOutcome.DROPPED
        self._update[worker] = self.version
        self._held.append(worker)
        if len(self._held) < self.quorum:
            return GradientOutcome.HELD
        self._held.clear()
        self._commit()
        return GradientOutcome.APPLIED

    def may_go_on(self, worker: int) -> bool:
        """When its gradient is applied; at once if that is dropped."""
        # `DROPPED` is below every version.
        return self._update[worker] < self.version

    def leave(self, worker: int) -> None:
        """What is held is dropped, if too few are left to make an update of it."""
        super().leave(worker)
        if self.clocks.living < self.quorum:
            for other in self._held:
                self._update[other] = DROPPED
            self._held.clear()


class BarrierGate(QuorumGate):
    """All gradients of a step are its update: every worker waits for all others."""

    barrier: ClassVar[bool] = True

    def __init__(self, workers: int, *, lag: int = 0) -> None:
        super().__init__(workers, workers, lag=lag)

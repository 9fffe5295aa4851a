"""The log of which worker read which version of the parameters, and which update used its gradient.

A replay of the training needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray

NEVER = np.iinfo(np.int64).max  # marks a gradient whose update the run did not reach

What = Literal["read", "gave", "averaged"]


class Act(NamedTuple):
    """At ``time`` (s), ``worker`` did ``what`` in its iteration ``clock``.

    ``number``: for ``read`` the version, for ``gave`` the update that includes the gradient
    (`DROPPED` for none), for ``averaged`` the other worker. Version v exists when updates 0 to v -
    1 are applied.
    """

    time: float
    what: What
    worker: int
    clock: int
    number: int


@dataclass(frozen=True, slots=True, eq=False)
class Gradients:
    """One entry for each gradient, sorted by the time when its parameters were read.

    ``begun`` and ``done`` (s): when it was begun, and handed over (NaN if never).
    ``read``: the version that it was computed on. ``update``: the update that includes it, or
    `DROPPED` or `NEVER`.
    """

    worker: IntArray
    clock: IntArray
    begun: FloatArray
    done: FloatArray
    read: IntArray
    update: IntArray


class Log:
    """The events that decide which gradients are computed on which parameters.

    ``acts`` of asynchronous workers are in order of time. ``times[u]`` (s) is when update u was
    applied everywhere. If each worker has its own model, it is when step u ended; for a central
    average model, when its update u was made.
    """

    def __init__(self) -> None:
        self.acts: list[Act] = []
        self.times: list[float] = []

    def add(
        self,
        time: float,
        what: What,
        worker: int,
        clock: int,
        number: int,
    ) -> None:
        """Add an act."""
        self.acts.append(Act(time, what, worker, clock, number))

    def steps(
        self,
        starts: FloatArray,
        done: FloatArray,
        read: IntArray,
        gave: IntArray,
        times: FloatArray,
    ) -> None:
        """Add all acts of synchronous workers: arrays of shape (steps, workers)."""
        # Updates build on one another: none exists before its predecessor.
        self.times.extend(np.maximum.accumulate(times).tolist())
        self._note("read", starts, read)
        self._note("gave", done, gave)

    def _note(self, what: What, when: FloatArray, number: IntArray) -> None:
        """Add one act of each worker in each step."""
        for clock, (row, numbers) in enumerate(zip(when.tolist(), number.tolist(), strict=True)):
            for worker, (time, value) in enumerate(zip(row, numbers, strict=True)):
                self.acts.append(Act(time, what, worker, clock, value))

    @property
    def gradients(self) -> Gradients:
        """All gradients that were begun."""
        gave = {(act.worker, act.clock): act for act in self.acts if act.what == "gave"}
        reads = sorted(
            (act for act in self.acts if act.what == "read"),
            key=lambda act: (act.time, act.clock, act.worker),
        )
        done, updates = [], []
        for read in reads:
            end = gave.get((read.worker, read.clock))
            time, update = (np.nan, NEVER) if end is None else (end.time, end.number)
            done.append(time)
            # A gradient that was handed over may belong to an update that the run did not reach.
            updates.append(update if update < len(self.times) else NEVER)
        return Gradients(
            worker=np.array([read.worker for read in reads]),
            clock=np.array([read.clock for read in reads]),
            begun=np.array([read.time for read in reads]),
            done=np.array(done),
            read=np.array([read.number for read in reads]),
            update=np.array(updates),
        )

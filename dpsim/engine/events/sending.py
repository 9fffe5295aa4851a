"""One call of one step, as the communication streams of all workers run it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import simpy

from dpsim.engine.calls import StagedCall


@dataclass(slots=True)
class Span:
    """The time when the last worker entered a collective, and when the last one left it (s)."""

    last_start: float = -np.inf
    last_end: float = -np.inf


class Sending:
    """The ``number``-th call of its communicator, counted from 0, in step ``step``.

    Its stages, one after the other, have a span each. A worker's stream that reaches the call waits
    until the worker has submitted it, or until a quorum of workers has. A stream that has finished
    it submits ``then``, the call that follows.
    """

    def __init__(self, number: int, step: int, call: StagedCall, workers: int) -> None:
        self.number = number
        self.step = step
        self.call = call
        self.spans = [Span() for _ in call.stages]
        self.then: Sending | None = None
        self.submitted = 0
        self.left = workers
        self._there = [False] * workers
        self._waiting: dict[int, simpy.Event] = {}

    def submit(self, rank: int, quorum: int) -> None:
        """Submit the call on ``rank``; after ``quorum`` submissions all streams may start it."""
        self._there[rank] = True
        self.submitted += 1
        if self.submitted == quorum:
            # A late worker's stream takes part for it, with zeros or an older gradient.
            self._there = [True] * len(self._there)
            for waiting in self._waiting.values():
                waiting.succeed()
            self._waiting.clear()
        elif rank in self._waiting:
            self._waiting.pop(rank).succeed()

    def may_begin(self, rank: int, env: simpy.Environment) -> simpy.Event | None:
        """Return the event that the stream of ``rank`` must wait for, or None."""
        if self._there[rank]:
            return None
        event = self._waiting[rank] = env.event()
        return event

    def __repr__(self) -> str:
        return f"<Sending {self.number}: {self.call.name} of step {self.step}>"

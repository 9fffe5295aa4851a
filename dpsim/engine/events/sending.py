"""One call of one step, on its way through the communication streams of all workers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import simpy

from dpsim.engine.calls import StagedCall


@dataclass(slots=True)
class Span:
    """When the last worker entered a collective, and when the last one left it (s)."""

    last_start: float = -np.inf
    last_end: float = -np.inf


class Sending:
    """A call of step ``step``, the ``number``-th of its communicator, counted from 0.

    Its stages, one after the other, have a span each. Workers whose streams have come to it wait
    until they have submitted it, or until enough others have. A stream that is through with it
    submits ``then``, the call that follows it.
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
        """``rank`` gives it to its stream; with ``quorum`` of them, streams join without theirs."""
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
        """What the stream of ``rank`` must wait for, None where nothing."""
        if self._there[rank]:
            return None
        event = self._waiting[rank] = env.event()
        return event

    def __repr__(self) -> str:
        return f"<Sending {self.number}: {self.call.name} of step {self.step}>"

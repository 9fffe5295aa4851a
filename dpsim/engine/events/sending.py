"""A call of a step, as the workers' communication streams run it."""

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
    """The ``number``-th call of its communicator, counted from 0, in step ``step``.

    ``spans`` has an entry for each stage. A worker's stream starts the call when the worker, or a
    quorum of workers, has submitted it, and then submits ``then``, the call that follows.
    """

    def __init__(self, number: int, step: int, call: StagedCall, workers: int) -> None:
        self.number = number
        self.step = step
        self.call = call
        self.spans = [Span() for _ in call.stages]
        self.then: Sending | None = None
        self.submitted = 0
        self.unfinished = workers
        self._submitted_by = [False] * workers
        self._waiting: dict[int, simpy.Event] = {}

    def submit(self, rank: int, quorum: int) -> None:
        """Submit the call on ``rank``; after ``quorum`` submissions all streams may start it."""
        self._submitted_by[rank] = True
        self.submitted += 1
        if self.submitted == quorum:
            # A late worker's stream takes part without it, with zeros or an older gradient.
            self._submitted_by = [True] * len(self._submitted_by)
            for waiting in self._waiting.values():
                waiting.succeed()
            self._waiting.clear()
        elif rank in self._waiting:
            self._waiting.pop(rank).succeed()

    def may_begin(self, rank: int, env: simpy.Environment) -> simpy.Event | None:
        """Return the event that the stream of ``rank`` must wait for, or None."""
        if self._submitted_by[rank]:
            return None
        event = self._waiting[rank] = env.event()
        return event

    def __repr__(self) -> str:
        return f"<Sending {self.number}: {self.call.name} of step {self.step}>"

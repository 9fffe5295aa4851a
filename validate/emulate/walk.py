"""One worker's progress through its steps.

Timed waits for passes, and waits for calls in between; like `dpsim.engine.together`.
"""

from __future__ import annotations

import threading

import numpy as np

from dpsim.engine import Job
from validate.emulate.clock import Pace, now
from validate.emulate.row import Row

Ticket = threading.Event  # set when a call is done


class Walk:
    """A worker of ``job``, rank ``rank``, whose time 0 is ``start`` on the monotonic clock.

    ``row`` is the current step's.
    """

    def __init__(self, job: Job, rank: int, start: float) -> None:
        self.positions = job.positions[:, job.kind_of[rank]].tolist()
        self.last = len(self.positions) - 1
        self.row = Row(0)
        self._pace = Pace(start)
        self._start = start
        self._loading = None if job.input is None else job.input.of(rank).start()
        self._marks = {call.ready for calls in job.calls_of.values() for call in calls}
        self._awaited: dict[int, list[Ticket]] = {}
        self._reached: dict[int, float] = {}
        self._at = 0
        self._factor = 1.0

    def begin(self, step: int, factor: float) -> None:
        """Start a step: wait for its samples, and for calls needed before its first pass."""
        self.row = Row(step)
        self._factor, self._at = factor, 0
        self._reached = {}
        if self._loading is not None:
            asked = self._pace.at - self._start
            taken = float(self._loading.take(np.array([asked]))[0])
            self.row.input = taken - asked
            self._pace.spend(self.row.input)
        self.settle()
        self.row.begin = self._reached[0] = now()

    def end(self) -> None:
        """End the step: calls still awaited are awaited in the next one."""
        # Positions continue from step to step: the last one is the next step's first.
        self._awaited = {where - self.last: tickets for where, tickets in self._awaited.items()}
        self.row.end = now()

    def reached(self, position: int) -> float:
        """Return when it had computed up to ``position``: one where calls become ready, or 0."""
        return self._reached[position]

    def to(self, position: int) -> None:
        """Compute up to ``position``, waiting for the calls needed on the way."""
        if position == self._at:
            return
        # Stops where a call is needed and where calls become ready, which `reached` needs; layers
        # without either are one sleep.
        known = {*self._awaited, *self._marks}
        between = {where for where in known if self._at < where < position}
        for stop in sorted(between | {position}):
            self.settle()
            self._pace.spend(self._factor * (self.positions[stop] - self.positions[self._at]))
            self._at = stop
            self._reached[stop] = now()

    def spend_coding(self, seconds: float) -> None:
        """Encode or decode."""
        self._pace.spend(seconds)
        self.row.encode += seconds

    def wait_for(self, ticket: Ticket, position: int) -> None:
        """Let nothing past ``position`` start before ``ticket`` is set.

        If that is this step's end, it is the next one's start.
        """
        self._awaited.setdefault(position, []).append(ticket)

    def settle(self) -> None:
        """Wait for the calls needed at the current position."""
        if self._at not in self._awaited:
            return
        began = now()
        for ticket in self._awaited.pop(self._at):
            ticket.wait()
        self.row.waits.append((began, now()))
        # Passes after a wait start when it is over, however late compared with the plan.
        self._pace.resume()

"""Workers that act together.

The state of all of them is a vector of clock times, moved once per operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.budget import check
from dpsim.engine.job import Job
from dpsim.engine.staged_call import StagedCall
from dpsim.engine.steps import Steps, clock_gaps
from dpsim.strategy.sync import Gate
from dpsim.workload import Loading

if TYPE_CHECKING:
    from dpsim.engine.log import Log
    from dpsim.engine.timeline import Timeline


def run_together(
    job: Job,
    factors: FloatArray,
    progress: Callable[[int], None],
    timeline: Timeline | None = None,
    log: Log | None = None,
) -> Steps:
    """Simulate one step per row of ``factors`` (steps, workers), which multiply each worker's
    compute time.

    ``progress`` is called with the number of steps done after each of them.
    """
    records = Steps.empty(*factors.shape)
    run = _Run(job, timeline)
    starts, done, over = np.zeros_like(factors), np.zeros_like(factors), np.zeros(len(factors))
    loading = None if job.input is None else job.input.start()
    for step, factor in enumerate(factors):
        walk = run.walk
        walk.step = step
        if loading is not None:
            records.input[step] = walk.load(loading)
        walk.begin(factor)
        starts[step] = walk.time
        busy, done[step] = run.step(step)
        records.compute[step] = factor * run.whole
        records.straggler_wait[step] = walk.straggler
        records.exposed_comm[step] = walk.exposed
        records.encode[step] = walk.coding
        records.overlapped_comm[step] = np.maximum(busy - walk.exposed, 0.0)
        walk.end()
        over[step] = walk.time.max()
        progress(step + 1)
    records.clock_gap[:] = clock_gaps(starts, done)
    if job.one_version and run.rounds:
        records.versions[:] = run.gate.versions_behind(starts, done, run.rounds)
    if log is not None:
        _note(log, run, starts, done, over)
    return records


def _note(
    log: Log,
    run: _Run,
    starts: FloatArray,
    done: FloatArray,
    over: FloatArray,
) -> None:
    """Log all steps; ``over`` is when each was.

    A model of one's own is as many versions old as steps.
    """
    one_version, rounds = run.job.one_version, run.rounds
    read = gave = np.broadcast_to(np.arange(len(starts))[:, None], starts.shape)
    if one_version and rounds:
        read, gave = run.gate.versions(starts, done, rounds)
    in_rounds = rounds and (one_version or run.gate.lag)
    log.steps(starts, done, read, gave, np.array([end for _, end in rounds]) if in_rounds else over)


class _Run:
    """The workers of a job step by step; ``rounds``.

    When the last collective of each step began, and when all had ended it.
    """

    def __init__(self, job: Job, timeline: Timeline | None) -> None:
        self.job = job
        self.gate = job.gate()
        self.whole = job.positions[-1][job.kind_of]
        self.rounds: list[tuple[float, float]] = []
        self.updated = len(job.positions) - 1
        marks = {call.ready for calls in job.calls_of.values() for call in calls}
        self.walk = _Walk(job.positions, job.kind_of, frozenset(marks), self.gate, timeline)

    def step(self, step: int) -> tuple[float, FloatArray]:
        """One step.

        Seconds for which the network was busy, and when each worker's gradient was there.
        """
        calls, walk = self.job.calls(step), self.walk
        gradients = tuple(call for call in calls if call.ready < self.updated)
        models = calls[len(gradients) :]
        busy = self._communicate(step, gradients)
        walk.to(self.updated - 1)
        done = (
            walk.time.copy()
            if not gradients
            else np.maximum(walk.reached(gradients[-1].ready), walk.reached(0))
        )
        walk.decode(gradients)
        walk.to(self.updated)
        busy += self._communicate(step, models)
        walk.decode(models)
        return busy, done

    def _communicate(self, step: int, calls: tuple[StagedCall, ...]) -> float:
        """Send calls one after the other; returns how many seconds the network was busy with
        them.

        A worker encodes a call when it is ready, which holds up what it computes next; it
        decodes all of them together. Where not all workers are waited for, those that are late take
        part from when the others begin.
        """
        walk, busy, begin = self.walk, 0.0, 0.0
        for call in calls:
            check()
            there = self.gate.takes_part(walk.encode(call))
            for name, nbytes in call.stages:
                starts = np.maximum(there, walk.free)
                outcome = self.job.collective(name, step).finish_after(
                    starts, nbytes, walk.rested_at
                )
                walk.free, walk.rested_at = outcome.finishes, outcome.rested_at
                begin = float(starts.max())
                busy += float(walk.free.max() - begin)
                walk.note("communication", f"{call.name}: {name}", starts, walk.free)
            walk.wait_for(walk.free, call.needed + self.gate.lag * self.updated)
        if calls:
            self.rounds.append((begin, float(walk.free.max())))
        return busy


class _Walk:
    """All workers on their way through a step.

    Where they are, since when, what they wait for and what they have waited for.

    ``free`` is when each worker's communication is through with what it has been given,
    ``rested_at`` when links are rested then.
    """

    def __init__(
        self,
        positions: FloatArray,
        kind_of: IntArray,
        marks: frozenset[int],
        gate: Gate,
        timeline: Timeline | None,
    ) -> None:
        self.positions = positions
        self.kind_of = (
            kind_of if positions.shape[1] > 1 else slice(None)
        )  # what one kind takes is broadcast to all workers
        self.time = self.free = np.zeros(len(kind_of))
        self.rested_at = float("-inf")
        self.step = 0
        self._timeline = timeline
        self._marks = marks | {0}
        self._gate = gate
        self._awaited: dict[int, FloatArray] = {}
        self._reached: dict[int, FloatArray] = {}

    def note(self, stream: str, name: str, starts: FloatArray, ends: FloatArray) -> None:
        """Keep an interval for the timeline, if there is one."""
        if self._timeline is not None:
            self._timeline.add(self.step, stream, name, starts, ends)

    def load(self, loading: Loading) -> FloatArray:
        """Wait for the next batch; returns how many seconds each worker waits."""
        before, self.time = self.time, loading.take(self.time)
        self.note("input", "next batch", before, self.time)
        return self.time - before

    def begin(self, factor: FloatArray) -> None:
        """Start a step in which each worker's compute time is multiplied by ``factor``."""
        self._factor = factor
        self._at = 0
        self._reached.clear()
        self.exposed = np.zeros_like(self.time)
        self.straggler = np.zeros_like(self.time)
        self.coding = np.zeros_like(self.time)
        self._arrive(0)

    def end(self) -> None:
        """What is awaited later than the optimiser's step, or where it ends, is awaited in the next
        step.
        """
        self._awaited = {
            where - (len(self.positions) - 1): ends for where, ends in self._awaited.items()
        }

    def encode(self, call: StagedCall) -> FloatArray:
        """Compute up to where ``call`` is ready and encode it, at whatever speed; returns when
        each worker has.
        """
        there = self.reached(call.ready)
        if not call.encode.any():
            return there
        before = self.time
        self._spend(call.encode)
        self.note("compute", f"encode {call.name}", before, self.time)
        return np.maximum(there + call.encode[self.kind_of], self.time)

    def decode(self, calls: tuple[StagedCall, ...]) -> None:
        """Decode what has arrived."""
        before = self.time
        self._spend(sum((call.decode for call in calls), start=np.zeros(self.positions.shape[1])))
        self.note("compute", "decode", before, self.time)

    def _spend(self, seconds: FloatArray) -> None:
        self.time = self.time + seconds[self.kind_of]
        self.coding = self.coding + seconds[self.kind_of]

    def reached(self, position: int) -> FloatArray:
        """When each worker has computed up to ``position``, one of the marks."""
        if position not in self._reached:
            self.to(position)
        return self._reached[position]

    def to(self, position: int) -> None:
        """Compute up to ``position``, waiting on the way for what is needed there."""
        for stop in sorted(
            {
                *(where for where in (*self._awaited, *self._marks) if self._at < where < position),
                position,
            }
        ):
            begin, before = self._at, self.time
            self.time = before + self._computing(begin, stop)
            if self._timeline is not None:
                self._note_passes(begin, stop, before)
            self._at = stop
            self._arrive(stop)

    def _computing(self, begin: int, stop: int) -> FloatArray:
        """Seconds of computing between two positions."""
        seconds = (self.positions[stop] - self.positions[begin])[self.kind_of]
        return np.asarray(self._factor * seconds)

    def _note_passes(self, begin: int, stop: int, before: FloatArray) -> None:
        """Note what was computed since ``before``, each pass for itself.

        Passes split what is shown, never the clock: a step is the same to the last digit whether
        it is recorded or not.
        """
        layers = (len(self.positions) - 2) // 2
        since = before
        for end, name in ((layers, "forward"), (2 * layers, "backward"), (stop, "update")):
            if begin >= end:
                continue
            until = self.time if stop <= end else before + self._computing(begin, end)
            self.note("compute", name, since, until)
            if stop <= end:
                return
            since = until

    def wait_for(self, ends: FloatArray, position: int) -> None:
        """Let nothing past ``position`` start before ``ends`` (s, a vector over workers)."""
        if position == self._at:
            self._wait(ends)
        else:
            self._awaited[position] = np.maximum(self._awaited.get(position, ends), ends)

    def _arrive(self, position: int) -> None:
        if position in self._marks:
            self._reached.setdefault(position, self.time)
        # What is needed where this step ends is needed where the next one begins, and is waited for
        # there.
        if position in self._awaited and position < len(self.positions) - 1:
            self._wait(self._awaited.pop(position))

    def _wait(self, ends: FloatArray) -> None:
        """Until the last worker that is waited for has come here, waiting is its fault; what comes
        after is the network's.
        """
        waits = np.maximum(ends - self.time, 0.0)
        last = self._gate.enough_at(self.time)
        for_others = np.minimum(np.maximum(last - self.time, 0.0), waits)
        self.straggler = self.straggler + for_others
        self.exposed = self.exposed + (waits - for_others)
        self.time = self.time + waits

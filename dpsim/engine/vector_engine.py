"""The vector engine: synchronous workers as a vector of clock times, updated per operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from pkgutil import resolve_name
from typing import TYPE_CHECKING, get_args

import numpy as np

from dpsim.base.arrays import FloatArray, covered_seconds
from dpsim.base.budget import check
from dpsim.engine.calls import StagedCall
from dpsim.engine.clocks import Clocks, ClockState
from dpsim.engine.job import Job
from dpsim.engine.step_plan import Chain, Row, StepPlan
from dpsim.engine.steps import Steps
from dpsim.strategy.aggregation import Group

if TYPE_CHECKING:
    from dpsim.engine.log import Log
    from dpsim.engine.timeline import Timeline


def run_vector(
    job: Job,
    factors: FloatArray,
    progress: Callable[[int], None],
    timeline: Timeline | None = None,
    log: Log | None = None,
) -> Steps:
    """Simulate one step per row of ``factors`` on compute times, (steps, workers).

    ``progress`` is called with the number of steps done after each of them.
    """
    repeats_after, run = _repeats_after(job, factors, timeline), _Run(job, factors, timeline)
    clocks, before = run.clocks, None
    loading = None if job.input is None else job.input.start()
    step = 0
    while step < len(factors):
        clocks.step = step
        if loading is not None:
            run.input[step] = clocks.load(loading)
        clocks.begin(factors[step])
        first_round = len(run.rounds)
        run.step(step)
        if repeats_after is not None:
            now = clocks.state()
            is_repeat = before is not None and now.repeats(before)
            repeats = repeats_after(step) if is_repeat else 0
            if before is not None and repeats:
                later = now.since(before) * np.arange(1.0, repeats + 1)
                run.repeat(step, run.rounds[first_round:], later)
                clocks.repeat_step(before, now, repeats)
                step, now = step + repeats, clocks.state()
            before = now
        step += 1
        progress(step)
    common = run.rounds if job.one_version else []
    gaps, behind = run.gate.stalenesses(run.starts, run.done, common)
    if log is not None:
        log_versions(log, job, run.rounds, run.starts, run.done, run.over)
    return Steps(
        compute=run.factors * run.computing,
        exposed_comm=run.exposed,
        straggler_wait=run.straggler,
        overlapped_comm=run.overlapped,
        input=run.input,
        encode=run.coding,
        clock_gap=gaps,
        versions=behind,
    )


def _repeats_after(
    job: Job, factors: FloatArray, timeline: Timeline | None
) -> Callable[[int], int] | None:
    """Return a function that counts the steps directly after a step that do the same work.

    The clocks are a max-plus system: once a step has moved all of them by the same time, equal
    steps after it do so too, and are simulated in one go. None if no steps repeat, or if links,
    input or collectives change over time.
    """
    in_turns = any(len(models) > 1 for models in job.collectives.values())
    if in_turns or job.input is not None or job.scenario.disturbance.links:
        return None
    # Steps in which some worker's compute time differs from the step before.
    changes = np.flatnonzero(np.any(factors[1:] != factors[:-1], axis=1)) + 1
    if len(changes) == len(factors) - 1:
        return None
    # Recorded steps are simulated one by one.
    recorded = 0 if timeline is None else timeline.steps.stop - 1

    def after(step: int) -> int:
        if step < recorded:
            return 0
        later = changes[np.searchsorted(changes, step, side="right") :]
        end = int(later[0]) if len(later) else len(factors)
        # From the strategy's first own step on, exchanges repeat in each cycle.
        own, wanted = job.scenario.strategy.sync.first_own_step, job.exchange(step)
        for other in range(step + 1, min(end, max(step, own) + job.cycle + 1)):
            if job.exchange(other) != wanted:
                return other - step - 1
        return end - step - 1

    return after


def log_versions(
    log: Log,
    job: Job,
    rounds: list[tuple[float, float]],
    starts: FloatArray,
    done: FloatArray,
    over: FloatArray,
) -> None:
    """Log which versions workers read, and which updates used their gradients.

    ``starts`` and ``done``, (steps, workers), are when workers began a step and had its gradient.
    ``rounds``: when the last collective of each step began and ended for all. ``over``: when each
    step ended for all.
    """
    gate, one_version = job.gate(), job.one_version
    read = gave = np.broadcast_to(np.arange(len(starts))[:, None], starts.shape)
    if one_version and rounds:
        read, gave = gate.versions(starts, done, rounds)
    # A central average model is updated when its rounds end, which is later than the steps.
    in_rounds = rounds and (one_version or gate.lag)
    times = np.array([end for _, end in rounds]) if in_rounds else over
    if in_rounds and gate.quorum == job.workers and not gate.lag:
        # Workers decode the sum and take the optimiser's step before the next one.
        times = np.maximum(times, over)
    log.steps(starts, done, read, gave, times)


class _Run:
    """The workers of a job, step by step.

    For each step it keeps the parts of its time; when each worker began it (``starts``) and had its
    gradient (``done``); when it was ``over`` for all; and ``rounds``, when its last collective
    began and ended for all (s). ``computing`` is each worker's compute time without slowdowns (s).
    """

    def __init__(self, job: Job, factors: FloatArray, timeline: Timeline | None) -> None:
        self.job = job
        self.factors = factors
        self.gate = job.gate()
        self.computing = job.positions[-1][job.kind_of]
        self.rounds: list[tuple[float, float]] = []
        self.begun = self.ended = 0.0  # when all had entered the last collective, and left it
        self.spans: list[tuple[float, float]] = []  # of all collectives of a step
        self.finished = np.zeros(factors.shape[1])  # when workers finished the last call
        # The last position of a step, where the optimiser's step ends.
        self.updated = len(job.positions) - 1
        self.program = job.program
        self.plans = {kind: StepPlan.of(job.program, calls) for kind, calls in job.calls_of.items()}
        # A pass that only shifts all clocks repeats exactly, unless links change at given times.
        self.repeats = not job.scenario.disturbance.links
        marks = {mark for plan in self.plans.values() for mark in plan.marks}
        self.starts, self.done = np.zeros((2, *factors.shape))
        self.over = np.zeros(len(factors))
        self.input, self.coding = np.zeros((2, *factors.shape))
        self.exposed, self.straggler, self.overlapped = np.zeros((3, *factors.shape))
        self.clocks = Clocks(job.program, job.positions, job.kind_of, marks, self.gate, timeline)

    def repeat(self, step: int, rounds: list[tuple[float, float]], later: FloatArray) -> None:
        """Repeat ``step``, with its ``rounds``, in the next steps, shifted by ``later`` (s)."""
        following = slice(step + 1, step + len(later) + 1)
        for seconds in (self.coding, self.exposed, self.straggler, self.overlapped):
            seconds[following] = seconds[step]
        for times in (self.starts, self.done, self.over):
            times[following] = np.add.outer(later, times[step])
        self.rounds += [(begun + late, ended + late) for late in later for begun, ended in rounds]

    def step(self, step: int) -> None:
        """Simulate a step that has begun, and keep its seconds and its times."""
        plan, clocks = self.plans[self.job.exchange(step)], self.clocks
        gradients, models = plan.gradients, plan.models
        self.starts[step] = clocks.time
        self.spans = []
        self._in_passes(step, plan)
        clocks.advance_to(self.program.end)
        if gradients:
            self.done[step] = np.maximum(clocks.reached(gradients[-1].ready), clocks.reached(0))
            self.rounds.append((self.begun, self.ended))
        else:
            self.done[step] = clocks.time
        if plan.decode_gradients is not None:
            clocks.decode(plan.decode_gradients)
        clocks.advance_to(self.updated)
        self._communicate(step, models)
        if models:
            self.rounds.append((self.begun, self.ended))
        if plan.decode_models is not None:
            clocks.decode(plan.decode_models)

        self.over[step] = clocks.time.max()
        self.straggler[step] = clocks.straggler
        self.exposed[step] = clocks.exposed
        self.coding[step] = clocks.coding
        # Communication that a worker did not wait for overlapped with its computing.
        busy = covered_seconds(self.spans)
        self.overlapped[step] = np.maximum(busy - clocks.exposed, 0.0)

    def _in_passes(self, step: int, plan: StepPlan) -> None:
        """Send the calls of each pass, one pass after the other.

        The clocks are a max-plus system: once a pass has moved all of them by the same time, equal
        passes after it do so too, and are simulated in one go.
        """
        clocks, number = self.clocks, 0
        before: ClockState | None = None
        while number < self.program.passes:
            calls, repeats = plan.passes[number], plan.repeats[number] * self.repeats
            number += 1
            if not calls:
                continue
            first = len(self.spans)
            self._communicate(step, calls)
            if not repeats:
                before = None
                continue
            # Advance to the same position of each pass, so that two passes can be compared.
            clocks.advance_to(self.program.begin(number))
            now = clocks.state()
            if before is not None and clocks.repeat(before, now, repeats):
                late = now.since(before) * np.arange(1.0, repeats + 1)
                again = np.add.outer(late, np.array(self.spans[first:])).reshape(-1, 2)
                self.spans += [(begin, end) for begin, end in again.tolist()]
                number += repeats
            before = now

    def _communicate(self, step: int, rows: tuple[Row, ...]) -> None:
        """Send calls, those of a communicator one after the other."""
        for first, *further in rows:
            for call in first:
                self._send(step, call)
            if further and not self._send_in_a_row(step, further):
                for call in chain.from_iterable(further):
                    self._send(step, call)

    def _send(self, step: int, call: StagedCall) -> None:
        """Send one call.

        A worker encodes a call when it is ready, which delays its next computing; it decodes all
        calls together. With a quorum, late workers take part from when the others begin.
        """
        check()
        clocks = self.clocks
        stream = self.stream_of[call.group]
        ready, free = self.finished, clocks.free[stream]
        if not call.follows:
            ready = clocks.encode(call)
            if not self.job.keeps_pace:
                ready = self.gate.takes_part(ready)
        for name, nbytes in call.stages:
            # A communicator runs one operation after the other, as NCCL's stream does.
            starts = np.maximum(ready, free)
            self.begun = float(starts.max())
            model = self.job.collective(name, step)
            outcome = model.finish_after(starts, nbytes, clocks.refilled_at)
            free, clocks.refilled_at = outcome.finishes, outcome.refilled_at
            self.ended = float(free.max())
            # From the arrival of the last worker, because the earlier ones only waited for it.
            self.spans.append((self.begun, self.ended))
            clocks.note("communication", f"{call.name}: {name}", starts, free)
        clocks.free[stream] = self.finished = free
        if call.awaited:
            self._await(call, free)

    def _send_in_a_row(self, step: int, row: Sequence[Chain]) -> bool:
        """Send slices directly after one another in one go; return whether that is possible.

        It is if all workers finish each slice at the same time, which the models must know.
        """
        check()
        clocks, last = self.clocks, row[-1][-1]
        if not self.job.keeps_pace or clocks.records_step or last.needed <= clocks.at:
            return False
        # The stream of each stage, and the function that gives its end.
        stages_of_slice = [
            (self.stream_of[call.group], self.job.collective(name, step).end_from_common_start)
            for call in row[0]
            for name, _ in call.stages
        ]
        free = {stream: float(clocks.free[stream].max()) for stream, _ in stages_of_slice}
        if any(clocks.free[stream].min() < end for stream, end in free.items()):
            return False
        spans: list[tuple[float, float]] = []
        for calls in row:
            begin = free[stages_of_slice[0][0]]  # when workers finished the previous slice
            stages = [stage for call in calls for stage in call.stages]
            for (stream, end_of), (_, nbytes) in zip(stages_of_slice, stages, strict=True):
                begin = max(begin, free[stream])
                end = end_of(begin, nbytes)
                if end is None:
                    return False
                spans.append((begin, end))
                free[stream] = begin = end
        self.spans += spans
        self.begun, self.ended = spans[-1]
        clocks.free |= {stream: np.full_like(clocks.time, end) for stream, end in free.items()}
        self.finished = clocks.free[stages_of_slice[-1][0]]
        self._await(last, self.finished)
        return True

    def _await(self, call: StagedCall, ends: FloatArray) -> None:
        """Let workers wait for ``call``, which ends at ``ends``, where it is needed."""
        # A step is ``updated`` positions long, so a lag of a step adds that many positions.
        among = self.group if call.group == "group" else self.job.workers
        needed = call.needed + (self.gate.lag + call.lag) * self.updated
        self.clocks.wait_for(ends, needed, among)
        if call.lag:
            self.clocks.decode_at(call.needed + call.lag * self.updated, call)

    @cached_property
    def stream_of(self) -> Mapping[Group, Group]:
        """The stream of each communicator.

        Replicas and groups take turns on one stream if running both at once would overload a link.
        """
        streams: dict[Group, Group] = {group: group for group in get_args(Group)}
        replicas_meet = any(call.follows for calls in self.job.calls_of.values() for call in calls)
        if replicas_meet and resolve_name("dpsim.engine.events:overload_links")(self.job):
            streams["replicas"] = "all"
        return streams

    @cached_property
    def group(self) -> int:
        """The number of workers in a group that exchanges by itself."""
        return self.job.scenario.strategy.sync.group_size(self.job.cluster.mesh)

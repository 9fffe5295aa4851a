"""Starts ranks that run scenarios, one after the other, and collects their notes.

Workers' notes become the arrays of the simulator, with the same meaning. Only steps that every
worker has ended count. All times are of one clock.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray, covered_seconds
from dpsim.engine import Job, Steps, calibrated
from dpsim.scenario import Scenario, load_scenario
from validate.emulate.clock import before_all_others
from validate.emulate.program import emulate
from validate.ranks.launch import Host, RunFailed, launch, report_connected, write_row
from validate.ranks.processes import joined
from validate.ranks.program import program

Rows = Sequence[Mapping[str, Any]]
REALTIME = "DPSIM_REALTIME"  # the environment variable to request real-time scheduling
CONNECT_TIMEOUT = 180.0  # seconds until all ranks must have found each other


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario file and the values set in it."""

    file: str
    set: tuple[str, ...] = ()

    def scenario(self) -> Scenario:
        """Return the scenario. Raises ScenarioError."""
        return load_scenario(self.file, self.set)

    def job(self) -> Job:
        """Return the job of the scenario. Raises DpsimError."""
        return calibrated(self.scenario())


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """The measurements of one case.

    ``steps`` are all its steps, warm-up included, ``collectives`` the mean seconds of each call.
    """

    steps: Steps
    collectives: dict[str, float]


def run_cases(
    cases: Sequence[Case],
    hosts: Sequence[Host],
    *,
    timeout: float,
) -> tuple[list[Measured], RunFailed | None]:
    """Run ``cases``, which need the same ranks, on ``hosts``, one rank each.

    If the run fails, return the measurements until then, and the failure.
    """
    arguments = json.dumps([[case.file, list(case.set)] for case in cases])
    failure = None
    try:
        rows = launch(
            program(__name__, arguments),
            hosts,
            timeout_s=timeout,
            connect_timeout_s=min(CONNECT_TIMEOUT, timeout),
            preload=[__name__],
            # Not during the start, which would block others' measurements: ranks request it
            # themselves.
            realtime=False,
            environment={REALTIME: "1"} if any(host.realtime for host in hosts) else None,
        ).rows
    except RunFailed as error:
        failure, rows = error, error.run.rows
    return [measurements_of(case.job(), rows, number) for number, case in enumerate(cases)], failure


def as_rank(text: str) -> None:
    """Run one rank of all cases, started by `run_cases`.

    On a testbed it has real-time priority from here on.
    """
    jobs = [Case(file, tuple(set_)).job() for file, set_ in json.loads(text)]
    if REALTIME in os.environ:
        before_all_others()
    with joined("gloo", "cpu", CONNECT_TIMEOUT) as world:
        report_connected()
        for number, job in enumerate(jobs):
            emulate(job, world, number, write_row)


def measurements_of(job: Job, rows: Rows, number: int) -> Measured:
    """Return the measurements of case ``number`` from the ``rows`` of all ranks."""
    mine: list[list[Mapping[str, Any]]] = [[] for _ in range(job.workers)]
    carried: list[list[Mapping[str, Any]]] = [[] for _ in range(job.workers)]
    start = 0.0
    for row in rows:
        if row["case"] != number:
            continue
        if "start" in row:
            start = row["start"]
        elif row["rank"] < job.workers:
            kind = carried if "stamps" in row else mine
            kind[row["rank"]].append(row)
    run = job.scenario.run
    steps = account(job, mine, carried, run.warmup + run.steps, start)
    return Measured(steps, collective_seconds(carried, run.warmup, run.warmup + run.steps))


def account(
    job: Job, rows: Sequence[Rows], carried: Sequence[Rows], steps: int, start: float
) -> Steps:
    """Return the steps of ``job``'s workers, at most ``steps``, from ``start`` on.

    ``rows`` are each worker's steps in order, ``carried`` the messages that each took part in.
    """
    workers = len(rows)
    # A failed run ends in the middle of a step, which differs between workers.
    whole = min(steps, *(len(own) for own in rows))
    kept = [own[:whole] for own in rows]
    records = Steps.empty(whole, workers)
    if not whole:
        return records
    records.encode[:] = _column(kept, "encode")
    records.input[:] = _column(kept, "input")
    if job.independent_workers:
        _independent(records, kept, rows)
    else:
        _collective(records, kept, carried, job)
    # A step begins where the last one ended. Computing is the rest of it, so that all parts add up
    # to the step, whatever time the operating system took in between.
    starts = np.full(workers, start)
    ends = np.vstack([starts, _column(kept, "end")])
    lasting = np.diff(ends, axis=0)
    waited = records.exposed_comm + records.straggler_wait
    records.compute[:] = lasting - records.encode - records.input - waited
    return records


def _collective(records: Steps, rows: Sequence[Rows], carried: Sequence[Rows], job: Job) -> None:
    """Divide waits like `dpsim.engine.vector_engine`.

    A wait is for a straggler until the last worker that is needed has begun it, too.
    """
    gate = job.gate()
    workers, whole = len(rows), len(rows[0])
    for step in range(whole):
        waits = np.array([own[step]["waits"] for own in rows]).reshape(workers, -1, 2)
        # All workers settle at the same positions of a step, so that wait number i of each is for
        # the same calls. Transposed by wait, then begin and end, then worker.
        for began, ended in waits.transpose(1, 2, 0):
            waited = ended - began
            last = gate.quorum_ready_at(began)
            # Count at most the wait, since a call may have come before the last worker waited.
            for_others = np.minimum(np.maximum(last - began, 0.0), waited)
            records.straggler_wait[step] += for_others
            records.exposed_comm[step] += waited - for_others
    busy, rounds = _network(carried, whole)
    records.overlapped_comm[:] = np.maximum(busy[:, None] - records.exposed_comm, 0.0)
    starts = _column(rows, "begin")
    done = _column(rows, "done")
    common = rounds if job.one_version else []
    records.clock_gap[:], records.versions[:] = gate.stalenesses(starts, done, common)


def _network(carried: Sequence[Rows], steps: int) -> tuple[FloatArray, list[tuple[float, float]]]:
    """Return the seconds of each step with a busy network, and the times of its last collective.

    The times are when the last one began, and when it ended for all.
    """
    spans: dict[int, list[tuple[float, float]]] = defaultdict(list)
    last: dict[int, tuple[float, float]] = {}
    # Calls of one group follow one another on all workers; those of several run concurrently.
    alike = [sorted(own, key=lambda row: row.get("group", "all")) for own in carried]
    # The lists may differ in length, since in a failed run some workers have done less.
    for same in zip(*alike, strict=False):
        step = same[0]["step"]
        if step >= steps:
            continue
        stamps = np.array([row["stamps"] for row in same])  # workers, stages, begin and end
        # Bytes flow once the last worker takes part; until then the others' threads only wait.
        begins = stamps[:, :, 0].max(axis=0)
        ends = stamps[:, :, 1].max(axis=0)
        spans[step] += zip(begins.tolist(), ends.tolist(), strict=True)
        last[step] = float(begins[-1]), float(ends[-1])
    busy = np.array([covered_seconds(spans[step]) for step in range(steps)])
    return busy, [last[step] for step in sorted(last)]


def _independent(records: Steps, rows: Sequence[Rows], everything: Sequence[Rows]) -> None:
    """Copy the waits that workers divided themselves.

    Clocks are compared over all of their work, even after their steps.
    """
    exposed = _column(rows, "exposed_comm")
    records.exposed_comm[:] = exposed
    records.straggler_wait[:] = _column(rows, "straggler_wait")
    records.overlapped_comm[:] = np.maximum(_column(rows, "busy") - exposed, 0.0)
    records.versions[:] = _column(rows, "versions").astype(np.int64)
    passed = [[row["passed"] for row in own] for own in everything]
    records.clock_gap[:] = _clock_gaps(_column(rows, "begin"), passed)


def _clock_gaps(begins: FloatArray, passed: Sequence[Sequence[float]]) -> IntArray:
    """Return how many iterations each worker is ahead of the slowest as it begins one.

    ``passed`` are the times at which each worker's clock advanced.
    """
    # By worker: its clock at the begin of each step of each worker.
    clocks = np.stack([np.searchsorted(own, begins, side="right") for own in passed])
    slowest = clocks.min(axis=0)
    own_clock = np.arange(len(begins))[:, None]
    return np.asarray(own_clock - slowest)


def _column(rows: Sequence[Rows], name: str) -> FloatArray:
    """Return one value of every row, (steps, workers)."""
    by_worker = [[row[name] for row in own] for own in rows]
    return np.array(by_worker, dtype=float).T


def collective_seconds(carried: Sequence[Rows], first: int, last: int) -> dict[str, float]:
    """Return the mean seconds of each message in steps ``first .. last - 1``, by its name.

    They count from a worker's begin to its end of it, over all its communicators.
    """
    taken: dict[str, list[float]] = {}
    for own in carried:
        by_group: dict[str, dict[str, list[Any]]] = {}
        for row in own:
            if first <= row["step"] < last:
                groups = by_group.setdefault(row["message"], {})
                groups.setdefault(row.get("group", "all"), []).append(row["stamps"])
        for message, groups in by_group.items():
            for parts in zip(*groups.values(), strict=False):
                began = min(stamps[0][0] for stamps in parts)
                ended = max(stamps[-1][1] for stamps in parts)
                taken.setdefault(message, []).append(ended - began)
    return {name: float(np.mean(seconds)) for name, seconds in taken.items()}

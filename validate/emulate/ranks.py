"""Starts ranks that carry out scenarios, one after the other, and collects what they noted."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpsim.engine import Job, Steps, calibrated
from dpsim.scenario import Scenario, load_scenario
from validate.emulate.account import account, collective_seconds
from validate.emulate.clock import before_all_others
from validate.emulate.program import emulate
from validate.ranks.launch import Host, RunFailed, connected, launch, write_row
from validate.ranks.processes import joined

Rows = Sequence[Mapping[str, Any]]
REALTIME = "DPSIM_REALTIME"  # the environment variable that asks ranks for real-time scheduling
CONNECT_TIMEOUT = 180.0  # seconds until all ranks must have found each other


@dataclass(frozen=True, slots=True)
class Case:
    """A scenario file and what is set in it."""

    file: str
    set: tuple[str, ...] = ()

    def scenario(self) -> Scenario:
        """What it describes. Raises ScenarioError."""
        return load_scenario(self.file, self.set)

    def job(self) -> Job:
        """The job that it describes. Raises DpsimError."""
        return calibrated(self.scenario())


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """What was measured of one case.

    ``steps`` are all its steps, warm-up included, ``collectives`` the mean seconds of each call,
    and ``failed`` says why this is not all, if so.
    """

    steps: Steps
    collectives: dict[str, float]
    failed: str | None = None


def run_cases(
    cases: Sequence[Case],
    hosts: Sequence[Host],
    *,
    timeout: float,
) -> tuple[list[Measured], RunFailed | None]:
    """Carry out ``cases``, whose ranks are alike, on ``hosts``, one rank each.

    Where the run fails the answer holds what was measured until then, and the failure.
    """
    command = [
        sys.executable,
        "-m",
        "validate.emulate",
        json.dumps([[case.file, list(case.set)] for case in cases]),
    ]
    failure = None
    try:
        rows = launch(
            command,
            hosts,
            timeout_s=timeout,
            connect_timeout_s=min(CONNECT_TIMEOUT, timeout),
            preload=[__name__],
            # Not for starting, which would hold up what others measure: ranks ask for it
            # themselves.
            realtime=False,
            environment={REALTIME: "1"} if any(host.realtime for host in hosts) else None,
        ).rows
    except RunFailed as error:
        failure, rows = error, error.run.rows
    return [measured(case.job(), rows, number) for number, case in enumerate(cases)], failure


def as_rank(text: str) -> None:
    """What `run_cases` starts: one rank of all cases."""
    jobs = [Case(file, tuple(set_)).job() for file, set_ in json.loads(text)]
    carry_out(jobs, write_row)


def carry_out(jobs: Iterable[Job], say: Callable[[Mapping[str, Any]], None]) -> None:
    """Carry out ``jobs`` as one of the ranks that the environment speaks of.

    On a testbed it is in real time from here on.
    """
    if REALTIME in os.environ:
        before_all_others()
    with joined("gloo", "cpu", CONNECT_TIMEOUT) as world:
        connected()
        for number, job in enumerate(jobs):
            emulate(job, world, number, say)


def measured(job: Job, rows: Rows, number: int) -> Measured:
    """What ``rows`` of all ranks say of case ``number``."""
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

"""Starts ranks that run scenarios, one after the other, and collects their notes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpsim.engine import Job, Steps, calibrated
from dpsim.scenario import Scenario, load_scenario
from validate.emulate.account import account, collective_seconds
from validate.emulate.clock import before_all_others
from validate.emulate.program import emulate
from validate.ranks.launch import Host, RunFailed, connected, launch, write_row
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
    told = json.dumps([[case.file, list(case.set)] for case in cases])
    failure = None
    try:
        rows = launch(
            program(__name__, told),
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
    return [measured(case.job(), rows, number) for number, case in enumerate(cases)], failure


def as_rank(text: str) -> None:
    """Run one rank of all cases, started by `run_cases`.

    On a testbed it has real-time priority from here on.
    """
    jobs = [Case(file, tuple(set_)).job() for file, set_ in json.loads(text)]
    if REALTIME in os.environ:
        before_all_others()
    with joined("gloo", "cpu", CONNECT_TIMEOUT) as world:
        connected()
        for number, job in enumerate(jobs):
            emulate(job, world, number, write_row)


def measured(job: Job, rows: Rows, number: int) -> Measured:
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

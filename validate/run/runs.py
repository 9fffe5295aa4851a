"""Runs scenarios for real and predicts them.

On testbeds, those with the same ranks in one launch; or in the run that a launcher started.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from dpsim.base.errors import DpsimError, FailedError
from dpsim.engine import Job, Run, run_job
from validate.emulate import Case, Placement, check, emulate, measurements_of, placement, run_cases
from validate.ranks.processes import joined
from validate.ranks.testbed import Testbed, TestbedConfig
from validate.run.step_run import EVERY_STEP, StepRun, step_run

_START_S = 180.0  # until ranks have loaded everything and met, at most
_TIMEOUT_FACTOR = 4.0  # times the prediction


class PartialRunError(FailedError):
    """A run that failed: ``runs`` are the measurements until then."""

    def __init__(self, message: str, runs: Sequence[StepRun]) -> None:
        super().__init__(message)
        self.runs = runs


def on_testbed(
    cases: Sequence[Case], *, repetitions: int = 1, timeout_s: float | None = None
) -> Iterator[StepRun]:
    """Run each of ``cases`` ``repetitions`` times on its testbed.

    Cases that need the same ranks share a testbed. ``timeout_s`` is for one testbed's cases; by
    default 180 s and 4 times the prediction. Raises PartialRunError as soon as a run fails,
    DpsimError for a scenario that cannot be run.
    """
    jobs = {case: case.job() for case in dict.fromkeys(cases)}
    groups: dict[tuple[TestbedConfig, Placement], dict[Case, Job]] = {}
    for case, job in jobs.items():
        check(job)
        testbed = job.scenario.testbed
        if testbed is None:
            raise DpsimError(
                f"{case.file}: testbed must be in the scenario or given by --testbed, but is not"
            )
        groups.setdefault(extend(testbed, placement(job.scenario)), {})[case] = job
    for (testbed, placed), members in groups.items():
        yield from _on_one(testbed, placed, members, repetitions, timeout_s)


def extend(testbed: TestbedConfig, placed: Placement) -> tuple[TestbedConfig, Placement]:
    """Return the testbed with hosts for servers too."""
    hosts = max(placed.hosts) + 1
    if hosts == testbed.hosts:
        return testbed, placed
    # The rack of servers' hosts and the rates of their links are not stated.
    if testbed.racks or isinstance(testbed.rate, tuple):
        raise DpsimError(
            "strategy.aggregation.colocated: must be true on a testbed with racks or rates of its "
            "own for each host, but got false"
        )
    return testbed.model_copy(update={"hosts": hosts}), placed


def _on_one(
    testbed: TestbedConfig,
    placed: Placement,
    cases: Mapping[Case, Job],
    repetitions: int,
    timeout_s: float | None,
) -> Iterator[StepRun]:
    # Repetitions of a case are adjacent, which the slices below rely on.
    sequence = [case for case in cases for _ in range(repetitions)]
    predicted = {case: run_job(job, EVERY_STEP) for case, job in cases.items()}
    limit = _limit(predicted.values(), repetitions) if timeout_s is None else timeout_s
    with Testbed(testbed) as up:
        everything, failure = run_cases(
            sequence, [up.hosts[host] for host in placed.hosts], timeout=limit
        )
    message = "" if failure is None else str(failure)
    runs = []
    for number, (case, simulated) in enumerate(predicted.items()):
        # A failed run has fewer repetitions, so the last slices may be short or empty.
        repeated = everything[number * repetitions : (number + 1) * repetitions]
        run = step_run(case, simulated, repeated, message)
        if run is not None:
            runs.append(run)
    if failure is not None:
        raise PartialRunError(message, runs) from failure
    yield from runs


def _limit(predicted: Collection[Run], repetitions: int) -> float:
    """Return the seconds that are enough unless something is wrong."""
    seconds = sum(len(run.all_steps.step) * run.step_time for run in predicted)
    return _START_S + _TIMEOUT_FACTOR * repetitions * (seconds + len(predicted))


def here(case: Case, *, repetitions: int = 1) -> StepRun | None:
    """Run ``case`` as one of the ranks that a launcher started.

    All of them must call this; returns the result on rank 0, None elsewhere. Raises DpsimError if
    the ranks are not those of the scenario.
    """
    job = case.job()
    check(job)
    rows: list[Mapping[str, Any]] = []
    with joined("gloo", "cpu") as world:
        for number in range(repetitions):
            emulate(job, world, number, rows.append)
        everyone = world.gather(rows)
    if world.rank:
        return None
    records = [{"rank": rank, **row} for rank, own in enumerate(everyone) for row in own]
    repeated = [measurements_of(job, records, number) for number in range(repetitions)]
    run = step_run(case, run_job(job, EVERY_STEP), repeated)
    assert run is not None
    return run

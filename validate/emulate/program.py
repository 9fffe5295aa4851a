"""The program of every rank of an emulation.

Join, prepare, start at a common time, work or serve, and report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.engine import Job, all_slow_downs
from validate.emulate.carriers import Carriers
from validate.emulate.clock import now, sleep_until
from validate.emulate.collective_workers import work_collectively
from validate.emulate.independent_workers import (
    Over,
    PairwiseCoordinator,
    ServerCoordinator,
    work_independently,
)
from validate.emulate.placement import check, placement
from validate.emulate.push_pull import Client
from validate.emulate.row import Carried, Row
from validate.emulate.servers import serve_collective_workers, serve_independent_workers
from validate.ranks.processes import World, same_clock

# Seconds from agreeing on a start until it, if the message takes less than half as long to all
# ranks; longer on slow links of a testbed.
_START_DELAY_S = 0.02

Report = Callable[[Mapping[str, Any]], None]


def emulate(job: Job, world: World, case: int, report: Report) -> None:
    """Run ``job``; all ranks of ``world`` must call this.

    This rank's notes are reported with the number ``case``. Raises DpsimError for scenarios that
    cannot be run, or if ranks are on several machines, whose clocks are not comparable.
    """
    check(job)
    placed = placement(job.scenario)
    if placed.ranks != world.size:
        servers = f" and {placed.servers} servers" if placed.servers else ""
        raise DpsimError(
            f"the run must have {placed.ranks} ranks ({placed.workers} workers{servers}), but got "
            f"{world.size}"
        )
    if not same_clock(world):
        raise DpsimError(
            "ranks must be on one machine, whose processes share a clock, but got several"
        )
    if world.rank < placed.workers:
        _work(job, world, range(placed.workers, placed.ranks), case, report)
    else:
        _serve(job, world, placed.servers, case, report)
    world.barrier()


def _work(job: Job, world: World, servers: range, case: int, report: Report) -> None:
    client = Client(world, servers) if servers else None
    carriers = None if job.independent_workers else Carriers(job, world, client)
    if carriers is not None:
        carriers.warm_up()

    def report_row(row: Row | Carried) -> None:
        report({"case": case, **asdict(row)})

    # All slow preparations come before the ranks agree on a start.
    factors = all_slow_downs(job)
    if carriers is None:
        over = Over(world, job.workers, f"case{case}")
        coordinator = (
            PairwiseCoordinator(job, world) if client is None else ServerCoordinator(job, client)
        )
        start = _common_start(world, case, report)
        work_independently(job, world.rank, coordinator, over, factors, start, report_row)
    else:
        start = _common_start(world, case, report)
        work_collectively(job, world, carriers, factors, start, report_row)


def _serve(job: Job, world: World, servers: int, case: int, report: Report) -> None:
    _common_start(world, case, report)
    if job.independent_workers:
        serve_independent_workers(job, world, servers)
    else:
        run = job.scenario.run
        serve_collective_workers(job, world, servers, run.warmup + run.steps)


def _common_start(world: World, case: int, report: Report) -> float:
    """Wait for the agreed start of all ranks, and return it, on the monotonic clock."""
    # A barrier releases ranks at slightly different times; a common start time does not.
    world.barrier()
    ahead = _START_DELAY_S
    start = max(world.gather(now())) + ahead
    while max(world.gather(now())) > start - ahead / 2:
        ahead *= 2
        start = max(world.gather(now())) + ahead
    report({"case": case, "start": start})
    sleep_until(start)
    return float(start)

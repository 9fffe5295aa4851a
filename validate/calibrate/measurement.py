"""Measures collectives on a testbed.

Before each repetition all ranks wait at a barrier and agree to begin `_START_DELAY_S` later, by
the machine's clock. At the start, links are therefore idle and their limiters' buckets full, and
ranks begin at once except for their wake-up times.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from dpsim.base.errors import DpsimError
from dpsim.collectives import algorithm
from dpsim.topology import TestbedConfig
from validate.calibrate.cases import LIBRARY, CollectiveCase
from validate.calibrate.messages import Messages, messages_of
from validate.collectives import Collective, Executor, LibraryCollective
from validate.microbench.benchmarks import Progress
from validate.microbench.runs import launch_benchmarks, print_progress, progress_reader
from validate.microbench.settings import Settings
from validate.ranks.launch import launch, report_connected, write_row
from validate.ranks.processes import World, joined
from validate.ranks.program import program
from validate.ranks.testbed import Testbed
from validate.records import RunRecord

_START_DELAY_S = 0.006  # seconds: twice the time that a limiter needs to fill its bucket
_TIMEOUT_S = 3600.0
_SMALLEST, _LARGEST = 65536, 2**20  # bytes of messages
_REPETITIONS = 5  # of each

Done = Callable[[int], None]


def measure(
    cases: Sequence[CollectiveCase], done: Done = lambda count: None
) -> Iterator[RunRecord]:
    """Yield a record of each case, by testbed; ``done`` is called with the number so far.

    Raises TestbedError if the machine lacks something, RunFailed if a rank fails, and DpsimError
    for a wrong sum.
    """
    count = 0
    for testbed in dict.fromkeys(case.testbed for case in cases):
        some = [case for case in cases if case.testbed == testbed]
        with Testbed(testbed) as up:
            # A default argument binds the count before this testbed, as ``count`` changes later.
            def progress(_: str, number: int, total: int | None, before: int = count) -> None:
                done(before + number)

            cases_json = json.dumps([case.model_dump(mode="json") for case in some])
            run = launch(
                program(__name__, cases_json),
                up.hosts,
                timeout_s=_TIMEOUT_S,
                connect_timeout_s=60.0,
                preload=["validate.microbench.runs"],
                on_line=progress_reader(progress),
            )
        # Rank 0 writes a row per case, in the order of the cases.
        rows = [row for row in run.rows if row["rank"] == 0]
        for case, row in zip(some, rows, strict=True):
            if row["wrong"]:
                raise DpsimError(f"{case.name}: {row['wrong']:,} values were wrong")
            yield case.record(row["times_s"])
        count += len(some)


def measure_messages(testbed: TestbedConfig, progress: Progress) -> list[Messages]:
    """Measure messages between two hosts of ``testbed``, one way and both ways at once.

    Raises the same errors as `measure`.
    """
    settings = Settings(
        what=("point-to-point",), begin=_SMALLEST, end=_LARGEST, factor=2.0, iterations=_REPETITIONS
    )
    with Testbed(testbed) as up:
        return messages_of(launch_benchmarks(settings, up.hosts, progress), testbed)


def as_rank(text: str) -> None:
    """Run one rank's part in the cases, given as JSON; rank 0 records the times of each."""
    cases = [CollectiveCase.model_validate(case) for case in json.loads(text)]
    with joined("gloo", "cpu") as world:
        report_connected()
        for number, case in enumerate(cases, 1):
            times, wrong = _measure(_make_collective(case, world), case)
            if world.rank == 0:
                write_row({"case": case.name, "times_s": times, "wrong": wrong})
                print_progress("collectives", number, None)
        world.barrier()


def _make_collective(case: CollectiveCase, world: World) -> Collective:
    elements = case.bytes // 4
    if case.algorithm == LIBRARY:
        return LibraryCollective(case.operation, elements, world, torch.float32)
    schedule = algorithm(case.algorithm, case.operation).schedule(world.size)
    return Executor(schedule, elements, world, torch.float32)


def _measure(collective: Collective, case: CollectiveCase) -> tuple[list[float], int]:
    """Return the seconds from the agreed start to the last rank's end, and all wrong values."""
    world = collective.world
    source, target = collective.buffers(in_place=collective.in_place)
    ends, wrong = [], 0
    for _ in range(-case.warmup, case.repetitions):
        collective.prepare(source, target)
        begin = _agree_on_start(world)
        time.sleep(max(begin - time.monotonic(), 0))
        collective.run(source, target)
        # Count from the agreed moment, so that a late wake-up of this rank counts as time.
        ends.append(time.monotonic() - begin)
        # Wait for all ranks, or the checks of finished ones would take processors from slower ones.
        world.barrier()
        wrong += collective.wrong(target)
    everyone: list[Any] = world.gather((ends[case.warmup :], wrong))
    slowest = np.max([own for own, _ in everyone], axis=0)
    return slowest.tolist(), sum(count for _, count in everyone)


def _agree_on_start(world: World) -> float:
    """Return the moment at which all ranks begin, in seconds of the machine's clock."""
    world.barrier()
    moment = torch.tensor([time.monotonic() + _START_DELAY_S], dtype=torch.float64)
    dist.broadcast(moment, 0)
    return float(moment)

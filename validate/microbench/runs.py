"""Runs microbenchmarks: on ranks started for them, or in the run that this process belongs to."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from dpsim.base.errors import DpsimError
from validate.microbench.benchmarks import BENCHMARKS, Progress, run_benchmarks
from validate.microbench.machine import machine, provenance
from validate.microbench.run_file import RankPlace, RunFile
from validate.microbench.settings import Settings
from validate.ranks.launch import Host, RunFailed, launch, report_connected, write_row
from validate.ranks.processes import World, first_line, joined
from validate.ranks.program import program

_TIMEOUT_S = 3600.0
_PROGRESS = "progress"

Row = dict[str, Any]


def launch_benchmarks(settings: Settings, hosts: Sequence[Host], progress: Progress) -> RunFile:
    """Start a rank on each of ``hosts``, measure, and end them.

    If that fails, return the measurements until then, with the reason.
    """
    _check_names(settings)
    command = program(__name__, settings.model_dump_json())
    failed = None
    try:
        rows = launch(
            command,
            hosts,
            timeout_s=_TIMEOUT_S,
            connect_timeout_s=settings.timeout,
            preload=[__name__],
            on_line=progress_reader(progress),
        ).rows
    except RunFailed as error:
        # Keep earlier measurements, which took minutes and are valid, beside the reason.
        failed, rows = str(error), error.run.rows
        if not rows:
            raise
    return _run_file(settings, rows, failed)


def here(settings: Settings, progress: Progress) -> RunFile | None:
    """Measure in this process's run, torchrun's or of one rank alone.

    All its ranks must call this; returns None except on rank 0.
    """
    _check_names(settings)
    rows: list[Row] = []
    failed = None
    try:
        run_ranks(settings, rows.append, progress)
    except DpsimError:
        raise
    except Exception as error:
        if not rows:
            raise
        failed = first_line(error)
    return _run_file(settings, rows, failed) if rows else None


def run_ranks(settings: Settings, report: Callable[[Row], None], progress: Progress) -> None:
    """Run one rank's part: join the others and measure.

    Rank 0 reports ``run``, which describes all ranks, and then each ``row``.
    """
    with joined(settings.backend, settings.device, settings.timeout) as world:
        report_connected()
        about = describe(world)
        if about is not None:
            report({"run": about})
        run_benchmarks(world, settings, lambda row: report({"row": row}), progress)
        world.barrier()


def as_rank(text: str) -> None:
    """Measure and write rows on a rank started by `launch_benchmarks`; progress goes to stdout."""
    run_ranks(Settings.model_validate_json(text), write_row, print_progress)


def _check_names(settings: Settings) -> None:
    for name in settings.what:
        BENCHMARKS[name]  # raises for an unknown one


def describe(world: World) -> Row | None:
    """Return backend, places of all ranks, machine and versions on rank 0; None elsewhere.

    All ranks must call this.
    """
    place = RankPlace(
        rank=world.rank,
        host=socket.gethostname(),
        pid=os.getpid(),
        device=str(world.device),
        device_name=world.face.name,
    )
    places = world.gather(place.model_dump())
    if world.rank:
        return None
    about = {"backend": world.backend, "ranks": places, "machine": machine()}
    return {**about, "provenance": provenance()}


def print_progress(what: str, done: int, total: int | None) -> None:
    """Print a line with the progress of a rank, which `progress_reader` reads."""
    sys.stdout.write(f"{_PROGRESS} {what} {done}\n")


def progress_reader(progress: Progress) -> Callable[[int, str, str], None]:
    """Return an ``on_line`` of `launch` that calls ``progress`` for each such line of rank 0."""

    def on_line(rank: int, stream: str, line: str) -> None:
        words = line.split()
        if rank == 0 and stream == "stdout" and len(words) == 3 and words[0] == _PROGRESS:
            progress(words[1], int(words[2]), None)

    return on_line


def _run_file(settings: Settings, rows: Iterable[Row], failed: str | None) -> RunFile:
    # Rank 0 describes all ranks before it measures, in the first row.
    about, *rest = rows
    measured = [each["row"] for each in rest]
    return RunFile(
        what=settings.what,
        settings=settings,
        rows=tuple(row for row in measured if "not_run" not in row),
        not_run={row["what"]: row["not_run"] for row in measured if "not_run" in row},
        failed=failed,
        **about["run"],
    )

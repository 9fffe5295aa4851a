"""A scenario run on this node and predicted, side by side.

The ranks are processes that are started here, one per GPU, or those that torchrun has started on
one node or on several. Device and backend are parameters: gloo on a processor uses the same code as
nccl on GPUs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray, covered_seconds
from dpsim.base.errors import DpsimError
from dpsim.base.units import DATA, human
from dpsim.engine import Job, Result, Run, Steps, run_job, seconds_lost
from dpsim.network.libraries import TRAITS
from validate.emulate import Case, Measured, Placement, placement
from validate.microbench.machine import machine
from validate.node.hardware import (
    Here,
    as_here,
    catalogue_name,
    check,
    check_memory_here,
    here,
)
from validate.node.methods import deviations, method_on
from validate.node.program import COMPUTES, Row, carry_out, twin_of
from validate.ranks.launch import RunFailed, launch, loopback, report_connected, write_row
from validate.ranks.processes import IMPORTED_LATE, joined, ranks_of_launcher
from validate.ranks.program import program
from validate.run import EVERY_STEP, PartialRunError, StepRun, step_run

Rows = Sequence[Mapping[str, Any]]
Bucket = tuple[int, float, float]

_TIMEOUT_S = 3600.0
_OWN_SHARE = 0.85  # of the time that a computing rank has its processor on a quiet machine
_CONTEXT_BYTES = 2 * 2**30  # well above the memory that a driver keeps for a process
_MEET_S = 300.0  # that ranks wait for one another: a first compiled step takes minutes


def on_node(
    case: Case,
    *,
    device: str = "auto",
    backend: str = "auto",
    compute: str = "real",
    take_what_is_here: bool = False,
    timeout_s: float | None = None,
) -> StepRun | None:
    """Run ``case`` here, and predict it; under a launcher return the result on rank 0, else None.

    Raises PartialRunError if a rank fails, and DpsimError if this node cannot run the scenario.
    """
    if compute not in COMPUTES:
        raise DpsimError(f"--compute must be real or timed here, but got {compute!r}")
    launched = ranks_of_launcher()
    node = here(device)
    if take_what_is_here:
        case = as_here(case, node, launched)
    scenario = case.scenario()
    check(scenario, node, launched)
    # Check method and model before any rank starts, so that a refusal is not a failed run.
    method_on(scenario)
    if compute == "real":
        twin_of(scenario)
    if compute == "real" and node.kind == "cpu" and launched is None:
        check_memory_here(scenario)

    arguments = [case.file, case.set, device, backend, compute]
    if launched is not None:
        gathered = _run_as_rank(arguments)
        return None if gathered is None else beside_prediction(case, node, gathered, "")
    rows, failed = _on_own_ranks(arguments, placement(scenario), timeout_s or _TIMEOUT_S)
    run = beside_prediction(case, node, rows, failed)
    if failed:
        raise PartialRunError(failed, [run])
    return run


def _on_own_ranks(
    arguments: Sequence[Any], placed: Placement, timeout_s: float
) -> tuple[list[Row], str]:
    """Return the rows of ranks started for the run, and why it failed, "" if it did not.

    Raises PartialRunError if too few of its rows are left.
    """
    command = program(__name__, json.dumps(arguments))
    hosts = loopback(placed.ranks)
    try:
        run = launch(command, hosts, timeout_s=timeout_s, preload=[__name__, IMPORTED_LATE])
    except RunFailed as error:
        # Every worker's row is needed to separate waiting from communication.
        if len(error.run.rows) < placed.workers:
            raise PartialRunError(str(error), []) from error
        return error.run.rows, str(error)
    return run.rows, ""


def as_rank(text: str) -> None:
    """Run one rank, started by `on_node`, and write its measurements."""
    file, sets, device, backend, compute = json.loads(text)
    with joined(backend, device, _MEET_S) as world:
        report_connected()
        write_row(carry_out(Case(file, tuple(sets)).job(), world, compute))
        world.barrier()


def _run_as_rank(arguments: Sequence[Any]) -> list[Row] | None:
    """Run as one of the ranks of a launcher: return all rows on rank 0, None elsewhere."""
    file, sets, device, backend, compute = arguments
    with joined(backend, device, _MEET_S) as world:
        rows: list[Row] = world.gather(carry_out(Case(file, tuple(sets)).job(), world, compute))
    return None if world.rank else rows


def beside_prediction(case: Case, node: Here, rows: Sequence[Row], failed: str) -> StepRun:
    """Return the measurement beside the prediction, which comes from the scenario alone.

    Raises DpsimError if no step counts.
    """
    job = case.job()
    ordered = sorted(rows, key=lambda row: row["rank"])
    predicted = run_job(job, EVERY_STEP)
    measured = Measured(steps_of(job, ordered), bucket_seconds(ordered, job.counted.start))
    run = step_run(case, predicted, [measured], failed)
    if run is None:
        raise DpsimError("a run must have steps beyond the warm-up, but none was measured")
    first = ordered[0]
    return replace(
        run,
        predicted=divide_as_measured(run.predicted),
        device=first["device"],
        backend=first["backend"],
        memory=_memory(predicted, ordered),
        hidden=not first["hides"],
        notes=(
            *_notes(job.scenario.cluster.parts, node, predicted),
            *deviations(job.scenario, on_gpu=node.kind == "cuda"),
            *_by_another_library(job, first["backend"]),
            *_sharing_notes(node, ordered),
            *_busy_notes(node, ordered),
        ),
    )


def divide_as_measured(predicted: Result) -> Result:
    """Return the prediction with its parts divided like the measurement.

    The time that computing loses to concurrent communication is measured as communication, since
    computing is measured without it.
    """
    job, steps = predicted.job, predicted.steps
    if predicted.independent_workers:
        return predicted
    lost = np.minimum(seconds_lost(job)[job.kind_of], steps.compute)
    moved = replace(steps, compute=steps.compute - lost, exposed_comm=steps.exposed_comm + lost)
    return replace(predicted, steps=moved)


def _memory(predicted: Run, rows: Sequence[Row]) -> dict[str, float | None]:
    """Return the bytes of a worker: predicted, and the largest measured."""
    use = predicted.result.memory
    return {
        "predicted_bytes": None if use is None else use.held.total,
        "measured_bytes": max(row["peak_bytes"] for row in rows),
    }


def _by_another_library(job: Job, backend: str) -> Iterator[str]:
    """Yield a note if collectives were predicted for another library than the one that ran."""
    library = job.setting.library
    if job.workers > 1 and library in TRAITS and TRAITS[library].in_torch and library != backend:
        yield (
            f"collectives were predicted as {library}'s, and ran by {backend}: "
            f"strategy.aggregation.library={backend} predicts what ran"
        )


def _sharing_notes(node: Here, rows: Sequence[Row]) -> Iterator[str]:
    """Yield notes on GPUs that others use: their memory is counted, and they slow the run."""
    for row in rows:
        if node.kind == "cuda" and row["held_before_bytes"] > _CONTEXT_BYTES:
            held = human(row["held_before_bytes"], DATA, 3)
            yield (
                f"the GPU of rank {row['rank']} held {held} before the run: other processes are on "
                "it, and count in its memory and times"
            )


def _busy_notes(node: Here, rows: Sequence[Row]) -> Iterator[str]:
    """Yield a note if other programs took processors while ranks computed without waiting."""
    least = min(row.get("processor_share", 1.0) for row in rows)
    # More ranks than cores take turns, which profiles of as many ranks include.
    due = min(1.0, (machine()["cores"] or 1) / len(rows))
    if node.kind == "cpu" and least < _OWN_SHARE * due:
        yield (
            f"a rank that computed had a processor for {least:.0%} of the time: other programs "
            "keep this machine too busy to compare seconds"
        )


def _notes(parts: Sequence[Any], node: Here, predicted: Run) -> list[str]:
    """Return remarks for users about the comparison."""
    notes = []
    names = {part.accelerator.name for part in parts}
    if node.kind == "cpu":
        notes.append(
            f"processes on {node.name} stand for {', '.join(sorted(names))}: compare times by a "
            "calibration that was measured here (dpsim validate node)"
        )
        notes.append(
            "memory measured is a process's resident set above what it held before; predicted is "
            "a GPU's, with its context"
        )
    elif names != {catalogue_name(node.name)}:
        notes.append(f"measured on {node.name}, predicted for {', '.join(sorted(names))}")
    return notes + list(predicted.result.notes)


def steps_of(job: Job, rows: Rows) -> Steps:
    """Return the steps of all workers, from their ``rows`` in order of rank.

    A worker's compute time is from steps measured alone, one for each step of the training in turn,
    plus its own delays. The rest of a step is waiting for slower workers, as far as they compute
    longer, and otherwise communication. The steps measured alone are other steps than the
    training's: single steps are divided as if they were, and the means are right.
    """
    workers = rows[: job.workers]
    whole = min(len(row["step_s"]) for row in workers)
    steps = Steps.empty(whole, len(workers))
    if not whole:
        return steps
    total = _column([row["step_s"] for row in workers], whole)
    steps.input[:] = _part(workers, "input", whole)
    steps.encode[:] = _part(workers, "encode", whole)
    rest = total - steps.input - steps.encode

    pauses = _column([row["pauses_s"] for row in workers], whole)
    alone = _column([np.resize(row["alone_s"], whole).tolist() for row in workers], whole)
    own = pauses + alone
    # A step that is shorter than the steps measured alone counts as computing.
    steps.compute[:] = np.minimum(own, rest)
    beyond = rest - steps.compute
    if not job.independent_workers:
        # (steps, workers): how much longer the slowest worker computes in each step.
        behind = own.max(axis=1, keepdims=True) - own
        steps.straggler_wait[:] = np.minimum(behind, beyond)
    steps.exposed_comm[:] = beyond - steps.straggler_wait

    busy = _column([[_busy(buckets) for buckets in row["carried"]] for row in workers], whole)
    # Exposed communication is not overlapped; waiting for others may exceed the time of sending.
    steps.overlapped_comm[:] = np.maximum(busy - steps.exposed_comm, 0.0)
    return steps


def bucket_seconds(rows: Rows, first: int) -> dict[str, float]:
    """Return the mean seconds of each bucket from start to end, from step ``first`` on."""
    taken: dict[str, list[float]] = {}
    for row in rows:
        for carried in row["carried"][first:]:
            for number, begin, end in carried:
                taken.setdefault(f"bucket{number}", []).append(end - begin)
    return {name: float(np.mean(seconds)) for name, seconds in sorted(taken.items())}


def _busy(buckets: Sequence[Bucket]) -> float:
    """Return the seconds in which at least one bucket was being sent."""
    return covered_seconds((begin, end) for _, begin, end in buckets)


def _column(values: Sequence[Sequence[float]], whole: int) -> FloatArray:
    """Return one value for each step of each worker, (steps, workers)."""
    return np.array([own[:whole] for own in values], dtype=float).T


def _part(workers: Rows, name: str, whole: int) -> FloatArray:
    return _column([row["parts_s"].get(name, [0.0] * whole) for row in workers], whole)

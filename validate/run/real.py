"""A scenario's strategy with real computing: a small network learns digits on each rank.

Each rank has its share of the processor. The prediction is for that network: its layers are
measured on a single rank first. Ranks beyond the cores then share them, which the prediction does
not know of. The scenario's jitter and slow workers are reproduced by waiting (`Waits`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import write_whole
from dpsim.engine import Job, Steps, run_scenario, slow_downs
from dpsim.scenario import Scenario
from dpsim.workload import ModelProfile
from validate.emulate import Case, Measured, Placement, placement
from validate.microbench.layers import profile
from validate.microbench.runs import launch_benchmarks
from validate.microbench.settings import Settings
from validate.ranks.launch import RunFailed, launch, loopback, report_connected, write_row
from validate.ranks.processes import joined
from validate.ranks.program import program
from validate.ranks.testbed import Testbed
from validate.run.methods import method_of
from validate.run.runs import PartialRunError, extend
from validate.run.step_run import EVERY_STEP, StepRun, step_run
from validate.training import Training, train

WIDTH = 64  # channels: 84,000 parameters, 0.3 MB of gradients
_TIMEOUT_S = 300.0
# Where its ranks train, and therefore where its layers are measured.
_BACKEND, _DEVICE = "gloo", "cpu"
_FACTORY = "validate.run.real:network"


def network() -> Any:
    """Return the network to train; without arguments, as microbenchmarks build it."""
    from validate.training import cnn

    return cnn(WIDTH)


def real_run(case: Case, *, timeout_s: float | None = None) -> StepRun:
    """Run ``case`` with real computing, beside the prediction for the trained network.

    Raises PartialRunError if a rank fails, DpsimError if there is no method or no testbed.
    """
    scenario = case.scenario()
    # Raises if there is none: better now than on every rank.
    method_of(scenario)
    if scenario.testbed is None:
        raise DpsimError(
            f"{case.file}: testbed must be in the scenario or given by --testbed, but is not"
        )
    with TemporaryDirectory() as folder:
        predictable, waits = _predictable(case, Path(folder))
        config, placed = extend(scenario.testbed, placement(scenario))
        failed = ""
        command = program(__name__, json.dumps([case.file, case.set]), str(waits))
        with Testbed(config) as up:
            try:
                rows = launch(
                    command,
                    [up.hosts[host] for host in placed.hosts],
                    timeout_s=timeout_s or _TIMEOUT_S,
                    preload=["validate.run"],
                ).rows
            except RunFailed as error:
                failed, rows = str(error), error.run.rows

        repeated = [Measured(_steps(rows, placed), {})] if rows else []
        predicted = run_scenario(predictable.scenario(), EVERY_STEP, settle=False)
        run = step_run(predictable, predicted, repeated, failed)
    if failed or run is None:
        raise PartialRunError(failed or "no rank has recorded anything", [run] if run else [])
    return run


def _predictable(case: Case, folder: Path) -> tuple[Case, Path]:
    """Return the case with the network's own times, and the file of its waits.

    All files are written to ``folder``: the times measured on one rank, the same stretched, and the
    waits.
    """
    # The waits need the measured seconds, and the prediction needs the stretched seconds.
    waits = folder / "waits.json"
    batch = case.scenario().workload.batch_per_gpu
    measured = _measured_profile(batch)
    found: Waits = waits_of(_with_profile(case, folder / "measured.json", measured, batch).job())
    write_whole(waits, json.dumps(found.seconds))
    assert measured.measured is not None
    longer = measured.model_copy(update={"measured": measured.measured.scaled(found.stretch)})
    return _with_profile(case, folder / "digits.json", longer, batch), waits


@dataclass(frozen=True, slots=True)
class Waits:
    """The seconds that each worker waits in each step, for jitter and for being slow.

    A worker whose computing is to take f times its measured seconds T waits (f - 1) T before it
    computes. Real computing cannot be made shorter: where draws are below 1, everything is
    stretched by 1 / (the smallest draw) first, in the prediction too. All computing counts as
    ``stretch`` times as long as it takes.
    """

    stretch: float
    seconds: tuple[tuple[float, ...], ...]


def waits_of(job: Job) -> Waits:
    """The waits in all steps of ``job``, warm-up included.

    Its times must be of computing only.
    """
    factors = slow_downs(job)
    stretch = 1 / min(float(factors.min()), 1.0)
    # The last position of a worker's kind is where its step ends: all that it computes.
    measured = job.positions[-1, job.kind_of]
    # Rounding may leave a wait just below nothing.
    seconds = ((factors * stretch - 1) * measured).clip(min=0.0)
    return Waits(stretch, tuple(map(tuple, seconds.T.tolist())))


def _with_profile(case: Case, file: Path, profile: ModelProfile, batch: int) -> Case:
    """Return the case with ``profile``, written to ``file``, as its model."""
    write_whole(file, profile.to_json())
    workload = {"model": {"profile": str(file)}, "batch_per_gpu": batch}
    return Case(case.file, (*case.set, f"workload={json.dumps(workload)}"))


def _training(scenario: Scenario, waits: Path) -> Training:
    run = scenario.run
    steps, batch = run.warmup + run.steps, scenario.workload.batch_per_gpu
    pauses = json.loads(waits.read_text())
    return Training(
        width=WIDTH, precision="float32", steps=steps, batch=batch, seed=run.seed, pauses_s=pauses
    )


def _measured_profile(batch: int) -> ModelProfile:
    """Return the network's layers as measured on a single rank."""
    settings = Settings(
        what=("layers",),
        model=_FACTORY,
        input=(1, 8, 8),
        batch_sizes=(batch,),
        backend=_BACKEND,
        device=_DEVICE,
    ).checked()
    run = launch_benchmarks(settings, loopback(1), lambda what, done, total: None)
    return profile(run.of("layers"), run.settings)


def _steps(rows: Sequence[Mapping[str, Any]], placed: Placement) -> Steps:
    """Return the workers' measurements as steps.

    Communication includes waiting for others; overlapped communication counts as compute.
    """
    workers = [
        row for row in sorted(rows, key=lambda row: row["rank"]) if row["rank"] < placed.workers
    ]
    # A failed run ends in a different step on each rank.
    whole = min(len(row["step_s"]) for row in workers)
    lasting = np.array([row["step_s"][:whole] for row in workers]).T
    sending = np.array([row["parts_s"]["communication"][:whole] for row in workers]).T
    steps = Steps.empty(whole, len(workers))
    steps.exposed_comm[:] = sending
    steps.compute[:] = lasting - sending
    return steps


def as_rank(text: str, waits: str) -> None:
    """Train as one rank, started by `real_run`, and write its record."""
    scenario = Case(*json.loads(text)).scenario()
    with joined(_BACKEND, _DEVICE) as world:
        report_connected()
        summary = train(method_of(scenario), world, _training(scenario, Path(waits))).summary()
        write_row({key: summary[key] for key in ("step_s", "parts_s", "losses")})

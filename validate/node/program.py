"""The program of each rank for a scenario on a node: train by its method, then compute alone.

A worker's compute time is measured with all workers computing at once and without communication:
the rest of a training step is communication or waiting.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from dpsim.base.errors import DpsimError
from dpsim.engine import Job, all_slow_downs, slow_downs
from dpsim.scenario import Scenario
from validate.emulate import placement
from validate.microbench.precision import products_in
from validate.node.methods import method_on
from validate.node.task import ScenarioTask
from validate.ranks.processes import World, first_line
from validate.training import Method, Task, Training, computing_step, train
from validate.twins import Subject, subject_of, timed_subject

_ALONE_WARMUP_STEPS = 3  # steps alone that do not count
_FEWEST_STEPS, _MOST_STEPS = 3, 20  # that count: as many as the training has, within these
COMPUTES = ("real", "timed")
Row = dict[str, Any]


def subject_for(job: Job, world: World, compute: str) -> Subject:
    """Return the workers' model: the scenario's, or layers that take its predicted seconds.

    Raises DpsimError if the model has no twin in torch.
    """
    if compute == "timed":
        kind = job.kind_of[min(world.rank, job.workers - 1)]
        times = job.times[kind]
        return timed_subject(job.model, times.forward, times.backward, world.face)
    return twin_of(job.scenario)


def twin_of(scenario: Scenario) -> Subject:
    """Return the scenario's model in torch. Raises DpsimError if there is none."""
    if scenario.workload.trainable != "all":
        raise DpsimError(
            "workload.trainable: must be all for a model that torch computes; --compute timed "
            "takes its predicted times instead"
        )
    flash = all(part.accelerator.flash_attention for part in scenario.cluster.parts)
    twin = subject_of(scenario.workload, flash=flash)
    if twin is None:
        raise DpsimError(
            "workload.model: must be one that torch can build (ResNet, VGG, ViT, BERT, GPT, LLaMA, "
            "a configuration, or torch: package.module:factory), but got "
            f"{scenario.build_model().name}; --compute timed takes its predicted times instead"
        )
    return twin


def carry_out(job: Job, world: World, compute: str) -> Row:
    """Run one rank's part, from the first step to the last, and return its measurements."""
    scenario = job.scenario
    method = method_on(scenario)
    placed = placement(scenario)
    if placed.ranks != world.size:
        raise DpsimError(
            f"the run must have {placed.ranks} ranks ({placed.workers} workers and "
            f"{placed.servers} servers), but got {world.size}"
        )
    face = world.face
    gc.collect()  # a previous scenario's objects, if it failed
    face.reset_peak()
    before = face.peak_bytes()
    with products_in(scenario.workload.precision):
        # Timed layers have nothing to compile, since their seconds are those of compiled ones.
        software = scenario.workload.full_software
        if compute == "timed":
            software = replace(software, execution="eager")
        if software.execution != "eager":
            # Several scenarios in one process are compiled separately: otherwise torch would
            # compile for dynamic sizes on the second batch size, and stop after eight variants of a
            # function.
            torch.compiler.reset()
        subject = subject_for(job, world, compute)
        task = ScenarioTask(job, subject, face, world.rank, software)
        working = world.rank < placed.workers
        with _compiling():
            training = _training(job, method, world, task, working, compute)
            face.reset_peak()
            record = train(method, world, training, task)
        peak = face.peak_bytes()
        # Free the training's memory, so that the next replica need not fit beside it.
        gc.collect()
        by_itself = _computing_only(method, task, training, world, working)

    return {
        **record.summary(),
        "alone_s": by_itself.seconds,
        "processor_share": by_itself.processor_share,
        "pauses_s": [training.pause(world.rank, step) for step in range(training.steps)],
        # A process's resident set includes the interpreter and torch.
        "peak_bytes": peak if face.on_gpu else peak - before,
        "held_before_bytes": before,
        "capacity_bytes": face.capacity,
        "device": face.kind,
        "device_name": face.name,
        "backend": world.backend,
        "hides": method.overlaps_communication,
    }


def computing_seconds(job: Job, world: World) -> Row:
    """Return the seconds of one rank's computing, with all ranks at once and no communication."""
    method = method_on(job.scenario)
    with products_in(job.scenario.workload.precision):
        words = job.scenario.workload.full_software
        task = ScenarioTask(job, twin_of(job.scenario), world.face, world.rank, words)
        training = Training(steps=_MOST_STEPS, batch=job.scenario.workload.batch_per_gpu)
        return {"alone_s": _computing_only(method, task, training, world, working=True).seconds}


@contextmanager
def _compiling() -> Iterator[None]:
    """Convert exceptions of torch.compile, which occur in the first step, to a DpsimError."""
    try:
        yield
    except Exception as error:
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        cause: BaseException = error
        while inner := getattr(cause, "inner_exception", None):
            cause = inner
        raise DpsimError(
            "workload.execution: must be eager here, where torch.compile does not work: "
            f"{first_line(cause)}"
        ) from error


def _training(
    job: Job, method: Method, world: World, task: ScenarioTask, working: bool, compute: str
) -> Training:
    """Return steps, batch, and the pauses of each worker in each step.

    A worker slowed down by f pauses for (f - 1) times its measured seconds; none can be faster than
    when alone. The natural differences between ranks are in their real compute times.
    """
    workload, run = job.scenario.workload, job.scenario.run
    settings: dict[str, Any] = {
        "precision": "float32",
        "steps": job.counted.stop,
        "batch": workload.batch_per_gpu,
        "seed": run.seed,
    }
    factors = slow_downs(job) if compute == "real" else all_slow_downs(job)
    if (factors == 1).all():
        return Training(**settings)
    of_rank = _computing_only(method, task, Training(**settings), world, working)
    workers = np.array(world.gather(of_rank.typical)[: job.workers])
    seconds = (factors - 1).clip(min=0) * workers
    return Training(**settings, pauses_s=tuple(map(tuple, seconds.T.tolist())))


class _Computing(NamedTuple):
    """Steps without communication, and the share of their time with a processor working on them.

    On a GPU the share is of the host, which may well wait.
    """

    seconds: list[float]
    processor_share: float

    @property
    def typical(self) -> float:
        """The seconds of a step without disturbances."""
        return float(np.median(self.seconds))


def _computing_only(
    method: Method, task: Task, training: Training, world: World, working: bool
) -> _Computing:
    """Measure some steps, on all workers at once, so that their spread shows, too."""
    world.barrier()
    if not working:
        world.barrier()
        return _Computing([0.0], 1.0)
    face = world.face
    step = computing_step(method, world, training, task)
    counted = min(max(training.steps, _FEWEST_STEPS), _MOST_STEPS)
    marks = []
    for turn in range(_ALONE_WARMUP_STEPS + counted):
        if turn == _ALONE_WARMUP_STEPS:
            wall, busy = time.perf_counter(), time.process_time()
        begin = face.mark()
        step()
        marks.append((begin, face.mark()))
    face.finish()
    share = (time.process_time() - busy) / (time.perf_counter() - wall)
    times = [face.seconds(*both) for both in marks[_ALONE_WARMUP_STEPS:]]
    world.barrier()
    return _Computing(times, share)

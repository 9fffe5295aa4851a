"""Measurements of a node, item by item, and each rank's part in a list of them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from pydantic import Field, NonNegativeFloat, PositiveInt
from torch import profiler
from torch.nn.parallel import DistributedDataParallel

from dpsim.base.config import Config
from dpsim.base.errors import DpsimError
from dpsim.engine import Job
from validate.emulate import Case
from validate.microbench.benchmarks import run_benchmarks
from validate.microbench.precision import products_in
from validate.microbench.runs import describe
from validate.microbench.settings import Settings
from validate.node.program import carry_out, computing_seconds, twin_of
from validate.node.rows import Rows, short
from validate.node.task import ScenarioTask
from validate.ranks.device import OUT_OF_MEMORY
from validate.ranks.processes import World, first_line, joined

_TURNS = 3  # of compared variants, as disturbances of a machine pass
PATIENCE_S = 300.0  # that ranks wait for one another: a first compiled step takes minutes
_UNTRACED_STEPS, _TRACED_STEPS = 2, 2  # steps: the first ones are not like others

Row = dict[str, Any]


class Item(Config):
    """One measurement: microbenchmarks by ``settings``, or a ``scenario`` with ``set`` changes.

    ``seconds`` is its approximate duration. With ``variants`` (further changes by name), the
    scenario is run once for each; ``alone``: only computing without communication. ``traced`` is
    the file for a Kineto trace of the scenario, if that is wanted instead of its times.
    """

    name: str
    ranks: PositiveInt
    backend: str
    seconds: NonNegativeFloat
    settings: Settings | None = None
    scenario: dict[str, Any] | None = None
    set: tuple[str, ...] = ()
    variants: dict[str, tuple[str, ...]] = Field(default={})
    alone: bool = False
    traced: str | None = None

    @property
    def identity(self) -> Row:
        """The fields that identify this measurement."""
        labels: Row = short(
            self.model_dump(mode="json", exclude={"seconds"}, exclude_defaults=True)
        )
        return labels

    def measure(self, world: World, report: Callable[[Row], None]) -> None:
        """Measure on all ranks; rank 0 reports row by row. Raises DpsimError."""
        if self.settings is not None:
            run_benchmarks(world, self.settings, report, lambda what, done, total: None)
            return
        with TemporaryDirectory() as folder:
            # A launcher's ranks on other nodes have no file of rank 0's.
            file = Path(folder, "scenario.yaml")
            file.write_text(json.dumps(self.scenario))
            jobs = {
                name: Case(str(file), (*self.set, *sets)).job()
                for name, sets in (self.variants or {"": ()}).items()
            }
        for turn, (name, job) in product(range(_TURNS if self.alone else 1), jobs.items()):
            if self.traced is not None:
                trace(job, world, self.traced)
                continue
            measured = (
                computing_seconds(job, world) if self.alone else carry_out(job, world, "real")
            )
            labels = {"variant": name, "turn": turn} if name else {}
            for rank, row in enumerate(world.gather(measured)):
                report({"rank": rank, **labels, **row})


class Order(Config):
    """The order to ranks: items in order, the file of rank 0's rows, and the deadline."""

    rows: str
    device: str
    until: float
    items: tuple[Item, ...]


def as_rank(text: str) -> None:
    """Run one rank's part in an order, given as JSON."""
    order = Order.model_validate_json(text)
    with joined(order.items[0].backend, order.device, PATIENCE_S) as world:
        about = describe(world)
        rows = None
        if about is not None:
            rows = Rows(Path(order.rows))
            rows.write({"world": about})
        for item in order.items:
            # Rank 0's clock counts: all must take the same items. It shares the monotonic clock of
            # the ordering process's machine; the wall clock may be changed meanwhile.
            if world.gather(time.monotonic() + item.seconds / 2 <= order.until)[0]:
                _measure(item, world, rows)
        world.barrier()


def _measure(item: Item, world: World, rows: Rows | None) -> None:
    if rows is None:
        item.measure(world, lambda row: None)
        world.barrier()
        return
    rows.write({"begin": item.name, "item": item.identity})
    began = time.monotonic()
    try:
        item.measure(world, lambda row: rows.write({"of": item.name, **row}))
        # A failure before all ranks are here belongs to this item.
        world.barrier()
    except (DpsimError, OUT_OF_MEMORY) as error:
        # A single rank blocks no other, and measures the next item.
        if world.size > 1:
            raise
        rows.write({"end": item.name, "failed": first_line(error)})
        return
    rows.write({"end": item.name, "seconds": time.monotonic() - began})


def trace(job: Job, world: World, file: str) -> None:
    """Train some steps under DDP, and write the trace of torch's profiler to ``file``."""
    # The last step before those that are traced warms up the profiler itself.
    marks = profiler.schedule(wait=_UNTRACED_STEPS - 1, warmup=1, active=_TRACED_STEPS)
    with products_in(job.scenario.workload.precision):
        words = job.scenario.workload.full_software
        task = ScenarioTask(job, twin_of(job.scenario), world.face, world.rank, words)
        model = DistributedDataParallel(task.model(0))
        optimiser = task.optimiser(list(model.parameters()))
        inputs, labels = task.batch(torch.empty(0))
        with profiler.profile(schedule=marks, record_shapes=True) as recorded:
            for _ in range(_UNTRACED_STEPS + _TRACED_STEPS):
                optimiser.zero_grad()
                task.loss(model, inputs, labels).backward()
                optimiser.step()
                recorded.step()
    if world.rank == 0:
        recorded.export_chrome_trace(file)
    world.barrier()

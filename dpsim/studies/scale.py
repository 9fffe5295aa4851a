"""Batch studies: more workers with a fixed global or per-worker batch, or larger batches.

Strong scaling keeps the global batch: each worker computes less, and communicates the same. Weak
scaling keeps each worker's batch: steps take the same time, and the larger global batch needs fewer
steps, up to the critical batch (`dpsim.convergence`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dpsim.base.budget import Budget
from dpsim.base.errors import DpsimError, FailedError, without_remedies
from dpsim.base.units import plural
from dpsim.engine import Result, TimeToTarget, Training, time_to_target, try_simulate
from dpsim.scenario import Scenario, load_scenario

_LEAST_GAIN = 1.05  # a smaller gain from more workers counts as none


@dataclass(frozen=True, slots=True)
class BatchPoint:
    """The result for one number of nodes and one batch.

    ``to_target`` is the training to the target, None if no convergence constants are known.
    """

    nodes: int
    batch_per_gpu: int
    gradient_accumulation: int
    result: Result
    to_target: TimeToTarget | None

    @property
    def global_batch(self) -> int:
        """The samples of a step."""
        return self.result.workers * self.result.batch_per_worker

    @property
    def training(self) -> Training | None:
        """The training to the target, None if it is unknown at this batch."""
        return None if self.to_target is None else self.to_target.training

    def to_json(self) -> dict[str, Any]:
        """Return a row of ``dpsim scale --by``: the row of ``dpsim run`` with the varied fields."""
        return {
            **self.result.to_json(),
            "nodes": self.nodes,
            "batch_per_gpu": self.batch_per_gpu,
            "gradient_accumulation": self.gradient_accumulation,
            "global_batch": self.global_batch,
            "to_target": None if self.to_target is None else self.to_target.to_json(),
        }


@dataclass(frozen=True, slots=True)
class BatchStudy:
    """Points ordered by nodes, then batch.

    ``left_out`` lists the cases that could not be simulated, and why. ``partial``: this machine's
    time or memory did not suffice for some.
    """

    points: tuple[BatchPoint, ...]
    left_out: tuple[str, ...]
    partial: bool = False

    @property
    def compares_time_to_target(self) -> bool:
        """Whether times to the target are known and compared; otherwise throughput is."""
        return any(point.training is not None for point in self.points)

    def pace(self, point: BatchPoint) -> float:
        """Return the compared rate: targets per second (0 if unknown), or samples per second."""
        if not self.compares_time_to_target:
            return point.result.throughput_samples_per_s
        return 0.0 if point.training is None else 1 / point.training.time_s

    @property
    def best_by_nodes(self) -> tuple[BatchPoint, ...]:
        """The best batch for each number of nodes."""
        numbers = sorted({point.nodes for point in self.points})
        return tuple(
            max((p for p in self.points if p.nodes == nodes), key=self.pace) for nodes in numbers
        )

    @property
    def stops_helping_at_nodes(self) -> int | None:
        """The first number of nodes after which the next gains less than 5 %, if any.

        A point with an unknown time gains nothing.
        """
        best = [(point.nodes, self.pace(point)) for point in self.best_by_nodes]
        ends = (nodes for (nodes, pace), (_, later) in pairwise(best) if later < _LEAST_GAIN * pace)
        return next(ends, None)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of ``dpsim scale --by``, without its schema version."""
        return {
            "compared": "time to target" if self.compares_time_to_target else "throughput",
            "rows": [point.to_json() for point in self.points],
            "best_batches": [
                {
                    "nodes": point.nodes,
                    "workers": point.result.workers,
                    "batch_per_gpu": point.batch_per_gpu,
                }
                for point in self.best_by_nodes
            ],
            "stops_helping_at_nodes": self.stops_helping_at_nodes,
            "left_out": list(self.left_out),
            "partial": self.partial,
        }


def batch_study(
    path: str | os.PathLike[str],
    nodes: Sequence[int],
    batches: Sequence[int] = (),
    overrides: Iterable[str] = (),
    *,
    fixed_global_batch: bool = False,
    progress: Callable[[int], None] = lambda done: None,
    say: Callable[[str], None] = lambda text: None,
) -> BatchStudy:
    """Simulate the scenario at ``path`` with each number of nodes and each batch per GPU.

    Without batches, the scenario's own is used. With ``fixed_global_batch``, or for a scenario that
    states its global batch, that is divided among the workers instead, reducing accumulated passes
    first. Numbers of workers that do not divide it are left out, like points that do not fit in
    memory or for which no time is left.

    The vector engine is used where it is exact, even if the file asks for events. ``progress`` gets
    the number of points done. If the study takes more than a few seconds, ``say`` gets a forecast
    and each result. Raises ScenarioError for an invalid scenario file, DpsimError if nothing can be
    simulated.
    """
    fixed = list(overrides)
    base = load_scenario(path, fixed)
    points: list[BatchPoint] = []
    left_out: list[str] = []
    failed: FailedError | None = None
    budget = Budget()
    if base.workload.global_batch is not None and not batches:
        fixed_global_batch = True
    chosen: list[int | None] = [*sorted(set(batches))] or [None]
    wanted = [(number, batch) for number in sorted(set(nodes)) for batch in chosen]
    for done, (number, batch) in enumerate(wanted, 1):
        try:
            shares = [] if batch is None else [f"workload.batch_per_gpu={batch}"]
            if fixed_global_batch:
                shares = _shares(base, number)
            point = _point(path, fixed, number, shares, budget)
            points.append(point)
            label = f"{plural(number, 'node')}, {point.batch_per_gpu} samples per GPU"
            pace = f"{point.result.throughput_samples_per_s:,.4g} samples/s"
            budget.stream(say, done, len(wanted), f"{label}: {pace}")
        except _LeftOutError as reason:
            left_out.append(str(reason))
            if isinstance(reason.__cause__, FailedError):
                failed = failed or reason.__cause__
        progress(done)
    if failed is not None and not points:
        raise failed
    if not points:
        raise DpsimError(
            f"{path}: must have at least one point that can be simulated, but: "
            f"{'; '.join(left_out)}"
        )
    return BatchStudy(tuple(points), tuple(left_out), failed is not None)


class _LeftOutError(DpsimError):
    """A point that cannot be simulated."""


def _shares(base: Scenario, nodes: int) -> list[str]:
    """Return the overrides that keep the scenario's global batch on ``nodes`` nodes.

    The number of passes changes first; passes get shorter only if that is not enough.
    """
    workers, workload = base.cluster.with_nodes(nodes).ranks, base.workload
    global_batch = base.global_batch
    share, rest = divmod(global_batch, workers * workload.learners_per_gpu)
    if rest or not share:
        raise _LeftOutError(
            f"{plural(nodes, 'node')}: {workers:,} workers do not divide a global batch of "
            f"{global_batch:,}"
        )
    # Choose the largest batch, up to the file's, that divides the share.
    batch = next(size for size in range(workload.batch_per_gpu, 0, -1) if share % size == 0)
    return [
        f"workload.batch_per_gpu={batch}",
        f"workload.gradient_accumulation={share // batch}",
    ]


def _point(
    path: str | os.PathLike[str],
    overrides: list[str],
    nodes: int,
    shares: list[str],
    budget: Budget,
) -> BatchPoint:
    varied = [f"cluster.nodes={nodes}", *shares]
    # An invalid scenario is an error; one without a prediction is left out.
    scenario = load_scenario(path, [*overrides, *varied])
    result = try_simulate(scenario, budget, quick=True)
    if isinstance(result, DpsimError):
        raise _LeftOutError(
            f"{plural(nodes, 'node')}, {scenario.workload.batch_per_gpu} samples per GPU: "
            f"{without_remedies(result)}"
        ) from result
    return BatchPoint(
        nodes,
        scenario.workload.batch_per_gpu,
        scenario.workload.gradient_accumulation,
        result,
        time_to_target(scenario, result.step_time_s["mean"]),
    )

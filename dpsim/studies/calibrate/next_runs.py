"""Propose steps to measure: a first plan for an unknown cluster, and the most informative runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.engine import resized
from dpsim.hardware import KnownRun
from dpsim.scenario import Scenario
from dpsim.studies.calibrate.fit import Fitted, slopes_of

_MOST_RUNS = 4
_LEAST_GAIN = 0.02  # of the variance: a run that reduces it by less is not proposed


class Proposed(NamedTuple):
    """A run to measure, and the share of the target's spread left after it (None in a plan)."""

    run: KnownRun
    spread_left: float | None = None

    def to_json(self) -> dict[str, float | int | None]:
        """Return the fields by their paths in a scenario."""
        return {
            "cluster.nodes": self.run.nodes,
            "cluster.gpus_per_node": self.run.gpus_per_node,
            "workload.batch_per_gpu": self.run.batch,
            "spread_left": self.spread_left,
        }


def plan(scenario: Scenario) -> tuple[Proposed, ...]:
    """Return four runs that determine most constants of a cluster.

    One GPU with the smallest and with the largest batch, then one full node and two full nodes (or
    half of a single node) with a middle batch.
    """
    part, batch = scenario.cluster.parts[0], scenario.workload.batch_per_gpu
    full = part.gpus
    least = max(batch // 4, 1)
    middle = max(round((least * batch) ** 0.5), 1)
    nodes = sum(each.nodes for each in scenario.cluster.parts)
    last = (2, full) if nodes > 1 else (1, max(full // 2, 1))
    wanted = [(1, 1, least), (1, 1, batch), (1, full, middle), (*last, middle)]
    runs = [KnownRun(nodes=n, gpus_per_node=g, batch=b) for n, g, b in dict.fromkeys(wanted)]
    return tuple(map(Proposed, runs))


def measure_next(found: Fitted, target: Scenario) -> tuple[Proposed, ...]:
    """Return up to four runs that narrow the prediction of ``target`` most, chosen one by one."""
    slope = slopes_of(found, target)
    covariance = found.covariance
    measured = [run.place for run in found.runs]
    new = (run for run in _candidates(target) if run not in measured)
    slopes = {run: _slope(found, target, run) for run in new}
    candidates = [(run, other) for run, other in slopes.items() if other is not None]
    chosen: list[Proposed] = []
    start = float(slope @ covariance @ slope)
    for _ in range(_MOST_RUNS):
        best, left, narrowed = None, start, covariance
        taken = [each.run for each in chosen]
        for run, other in candidates:
            if run in taken:
                continue
            updated = _update_covariance(covariance, other, found.noise)
            variance = float(slope @ updated @ slope)
            if variance < left:
                best, left, narrowed = run, variance, updated
        before = float(slope @ covariance @ slope)
        if best is None or left > before * (1 - _LEAST_GAIN):
            break
        covariance = narrowed
        chosen.append(Proposed(best, float((left / start) ** 0.5)))
    return tuple(chosen)


def _update_covariance(covariance: FloatArray, slope: FloatArray, noise: float) -> FloatArray:
    """Return the covariance after a run with that slope (Kalman's update)."""
    gain = covariance @ slope
    return covariance - np.outer(gain, gain) / (noise**2 + slope @ gain)


def _candidates(target: Scenario) -> Iterator[KnownRun]:
    part, batch = target.cluster.parts[0], target.workload.batch_per_gpu
    full = part.gpus
    nodes = sum(each.nodes for each in target.cluster.parts)
    for count in sorted({1, min(2, nodes), min(4, nodes)}):
        for per_node in sorted({1, full}):
            for samples in sorted({max(batch // 4, 1), max(batch // 2, 1), batch}):
                yield KnownRun(nodes=count, gpus_per_node=per_node, batch=samples)


def _slope(found: Fitted, target: Scenario, run: KnownRun) -> FloatArray | None:
    """Return the slope of a run, or None if the target's description does not allow it."""
    workload = target.workload
    if workload.global_batch is not None:
        return None
    batch = workload.model_copy(update={"batch_per_gpu": run.batch})
    try:
        run_scenario = resized(target, run.nodes * run.gpus_per_node, run.nodes)
        return slopes_of(found, run_scenario.model_copy(update={"workload": batch}))
    except (DpsimError, ValueError):
        return None

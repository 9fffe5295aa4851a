"""How far ranks that compute at once are apart: the spread of a profile, and what judges it.

A step of workers that meet ends with the slowest. So three things are taken from steps that ranks
computed at once: what they take on average, to which the times of layers are brought; their mean
where fewer ranks compute, over that, the pace; and how ranks differ around it, the jitter. For pace
and jitter each third batch size is held out: of it the mean time of the slowest rank is predicted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.disturbance import CorrelatedJitterConfig, fit_jitter
from dpsim.hardware import MeasuredModel, RankSpread
from validate.microbench import RunFile

EVERY = 3  # each so-manieth size is held out, of batches as of messages
_DRAWN = 20_000  # steps by which the slowest rank's mean is known within some thousandths


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """Seconds of steps of one model at one batch size, (steps, ranks), and by its layers."""

    times: FloatArray
    layers_s: float
    held_out: bool


@dataclass(frozen=True, slots=True, eq=False)
class _AtOnce:
    """All steps of one number of ranks, and the node of each rank."""

    nodes: tuple[int, ...]
    steps: list[_Steps]


def spreads_of(runs: Sequence[RunFile]) -> tuple[tuple[RankSpread, ...], list[float]]:
    """A spread for each number of ranks, and relative errors of the slowest rank held out.

    None where steps were not measured, or the layers that they are compared with.
    """
    spreads = []
    errors: list[float] = []
    for ranks, measured in sorted(_by_ranks(runs).items()):
        kept = [each for each in measured.steps if not each.held_out]
        pace = float(np.median([each.times.mean() / each.layers_s for each in kept]))
        jitter = _jitter([each.times for each in kept], measured.nodes)
        told = jitter.model_dump(mode="json", exclude_unset=True)
        spreads.append(RankSpread(ranks=ranks, pace=pace, jitter=told))

        factor = pace * _slowest(jitter, measured.nodes)
        for each in measured.steps:
            if each.held_out:
                slowest = float(each.times.max(axis=1).mean())
                errors.append(factor * each.layers_s / slowest - 1)
    return tuple(spreads), errors


def _by_ranks(runs: Sequence[RunFile]) -> dict[int, _AtOnce]:
    # Profiles have the layers' times of one number of ranks: the pace of others is told from those.
    layers: dict[tuple[object, ...], float] = {}
    for run in runs:
        if run.of("layers"):
            layers |= {_which(row, run): float(np.mean(row["steps_s"])) for row in run.of("spread")}

    found: dict[int, _AtOnce] = {}
    for run in runs:
        known = [row for row in run.of("spread") if _which(row, run) in layers]
        if not known:
            continue
        hosts = [place.host for place in run.ranks]
        nodes = tuple(hosts.index(host) for host in hosts)
        together = found.setdefault(len(hosts), _AtOnce(nodes, []))
        for number, row in enumerate(known):
            # From the second on: a fit needs one to begin with.
            held_out = number % EVERY == 1
            times = np.array(row["steps_s"])
            together.steps.append(_Steps(times, layers[_which(row, run)], held_out))
    return found


def at_once(model: MeasuredModel, run: RunFile) -> MeasuredModel:
    """``model`` with passes that make up the mean step that all ranks of ``run`` computed at once.

    Its layers say how a step divides: they were timed on rank 0, by a few repetitions.
    """
    means = {row["batch_size"]: float(np.mean(row["steps_s"])) for row in run.of("spread")}
    updates = {row["optimizer"] for row in run.of("spread")}
    update = sum(model.optimizers[name].value for name in updates)
    factors = []
    for batch, *passes in zip(model.batch_sizes, model.forward_s, model.backward_s, strict=True):
        alone = sum(map(sum, passes))
        together = means.get(batch, alone + update) - update
        # The update was timed apart: of a step of next to nothing it may seem the longer one.
        factors.append(max(together, 0.0) / alone)
    tables: dict[str, object] = {}
    for name, end in product(("forward", "backward"), ("s", "low_s", "high_s")):
        field = f"{name}_{end}"
        rows = zip(getattr(model, field), factors, strict=True)
        tables[field] = tuple(tuple(factor * each for each in row) for row, factor in rows)
    return model.model_copy(update=tables)


def _which(row: Mapping[str, object], run: RunFile) -> tuple[object, ...]:
    told = run.settings
    words = told.memory_format, told.execution, told.optimizer_kernels
    return row["model"], row["precision"], row["batch_size"], *words


def _jitter(tables: Sequence[FloatArray], nodes: Sequence[int]) -> CorrelatedJitterConfig:
    """That of all tables over their medians, with what ranks are apart in all of their steps.

    Which rank is slow is chance, of a run or of a placement: it counts as each one's own spread.
    """
    relative = np.concatenate([times / np.median(times) for times in tables])
    found = fit_jitter(relative, nodes).jitter
    # One rank has nobody to be apart from.
    if len(nodes) == 1:
        return found
    medians = np.array([np.log(np.median(times, axis=0)) for times in tables])
    lasting = float(medians.var(axis=1, ddof=1).mean())
    return found.model_copy(update={"sigma": round(math.hypot(found.sigma, lasting**0.5), 6)})


def _slowest(jitter: CorrelatedJitterConfig, nodes: Sequence[int]) -> float:
    """The mean of the slowest rank's factor."""
    per_node = np.unique(nodes, return_counts=True)[1].tolist()
    drawn = jitter.factors(len(nodes), _DRAWN, 0, per_node)
    return float(drawn.max(axis=1).mean())

"""The spread of ranks that compute at once, for a profile, and its errors on held-out sizes.

A synchronous step ends with the slowest worker. Three values are therefore taken from steps that
ranks computed at once: the mean time, to which the layers' times are scaled; the pace, the mean
step on another number of ranks relative to that; and the jitter, the differences between ranks. For
pace and jitter each third batch size is held out, and the mean time of its slowest rank is
predicted.
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
from validate.microbench.run_file import RunFile

EVERY = 3  # one in this many batch and message sizes is held out
_DRAWN_STEPS = 20_000  # steps, for the slowest rank's mean within some thousandths


@dataclass(frozen=True, slots=True, eq=False)
class _Steps:
    """Steps of one model at one batch size.

    ``times``: seconds, (steps, ranks). ``layers_s``: the mean step on the ranks whose layers were
    timed.
    """

    times: FloatArray
    layers_s: float
    held_out: bool


@dataclass(frozen=True, slots=True, eq=False)
class _Concurrent:
    """All steps of one number of ranks, and the node of each rank."""

    nodes: tuple[int, ...]
    steps: list[_Steps]


def spreads_of(runs: Sequence[RunFile]) -> tuple[tuple[RankSpread, ...], list[float]]:
    """Return a spread for each number of ranks, and the slowest rank's held-out relative errors.

    Both are empty if steps, or the layers that they are compared with, were not measured.
    """
    spreads = []
    errors: list[float] = []
    for ranks, measured in sorted(_by_ranks(runs).items()):
        kept = [each for each in measured.steps if not each.held_out]
        pace = float(np.median([each.times.mean() / each.layers_s for each in kept]))
        jitter = _jitter([each.times for each in kept], measured.nodes)
        settings = jitter.model_dump(mode="json", exclude_unset=True)
        spreads.append(RankSpread(ranks=ranks, pace=pace, jitter=settings))

        factor = pace * _slowest(jitter, measured.nodes)
        for each in measured.steps:
            if each.held_out:
                slowest = float(each.times.max(axis=1).mean())
                errors.append(factor * each.layers_s / slowest - 1)
    return tuple(spreads), errors


def _by_ranks(runs: Sequence[RunFile]) -> dict[int, _Concurrent]:
    # A profile has layer times for one number of ranks, to which the pace of others is relative.
    layers: dict[tuple[object, ...], float] = {}
    for run in runs:
        if run.of("layers"):
            layers |= {
                _case_key(row, run): float(np.mean(row["steps_s"])) for row in run.of("spread")
            }

    found: dict[int, _Concurrent] = {}
    for run in runs:
        known = [row for row in run.of("spread") if _case_key(row, run) in layers]
        if not known:
            continue
        hosts = [place.host for place in run.ranks]
        # A node's number is its first rank.
        nodes = tuple(hosts.index(host) for host in hosts)
        measured = found.setdefault(len(hosts), _Concurrent(nodes, []))
        for number, row in enumerate(known):
            # From the second on: a fit needs one to begin with.
            held_out = number % EVERY == 1
            times = np.array(row["steps_s"])
            measured.steps.append(_Steps(times, layers[_case_key(row, run)], held_out))
    return found


def scaled_to_concurrent_steps(model: MeasuredModel, run: RunFile) -> MeasuredModel:
    """Scale ``model``'s passes to the mean step that all ranks of ``run`` computed at once.

    The layers' proportions come from a few repetitions on rank 0.
    """
    means = {row["batch_size"]: float(np.mean(row["steps_s"])) for row in run.of("spread")}
    # One optimiser, or none if no steps were measured.
    updates = {row["optimizer"] for row in run.of("spread")}
    update = sum(model.optimizers[name].value for name in updates)
    factors = []
    for batch, *passes in zip(model.batch_sizes, model.forward_s, model.backward_s, strict=True):
        pass_seconds = sum(map(sum, passes))
        step = means.get(batch, pass_seconds + update) - update
        # The update was timed separately: for very short steps it may seem longer than the step.
        factors.append(max(step, 0.0) / pass_seconds)
    tables: dict[str, object] = {}
    for name, end in product(("forward", "backward"), ("s", "low_s", "high_s")):
        field = f"{name}_{end}"
        rows = zip(getattr(model, field), factors, strict=True)
        tables[field] = tuple(tuple(factor * each for each in row) for row, factor in rows)
    return model.model_copy(update=tables)


def _case_key(row: Mapping[str, object], run: RunFile) -> tuple[object, ...]:
    settings = run.settings
    words = settings.memory_format, settings.execution, settings.optimizer_kernels
    return row["model"], row["precision"], row["batch_size"], *words


def _jitter(tables: Sequence[FloatArray], nodes: Sequence[int]) -> CorrelatedJitterConfig:
    """Fit the jitter of all tables, each relative to its median.

    Which rank is slow differs from run to run, so lasting differences between ranks widen every
    rank's sigma.
    """
    relative = np.concatenate([times / np.median(times) for times in tables])
    found = fit_jitter(relative, nodes).jitter
    # A single rank has no others to differ from.
    if len(nodes) == 1:
        return found
    medians = np.array([np.log(np.median(times, axis=0)) for times in tables])
    lasting = float(medians.var(axis=1, ddof=1).mean())
    return found.model_copy(update={"sigma": round(math.hypot(found.sigma, lasting**0.5), 6)})


def _slowest(jitter: CorrelatedJitterConfig, nodes: Sequence[int]) -> float:
    """Return the mean of the slowest rank's factor."""
    per_node = np.unique(nodes, return_counts=True)[1].tolist()
    drawn = jitter.factors(len(nodes), _DRAWN_STEPS, 0, per_node)
    return float(drawn.max(axis=1).mean())

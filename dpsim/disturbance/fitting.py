"""A disturbance fitted to measured step times, of whole steps or of each worker.

Slow workers, stalls of the whole job and delays are removed in turn. The remaining variance is
split into parts of the job (common to all workers in a step), of nodes and of workers; the job's
part has an autocorrelation of its own. If only whole steps were timed, workers cannot be told
apart, and all jitter is attributed to the job.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from dpsim.base.config import first_problem
from dpsim.base.errors import DpsimError
from dpsim.disturbance.jitter import CorrelatedJitterConfig, Factors
from dpsim.disturbance.slow_workers import SlowWorkersConfig

STALLED = 1.3  # medians of the job above which a step has a stall
SLOW = 1.1  # medians of the others above which a worker is a straggler (Lin et al. 2025)
_DELAY_DEVIATIONS = 4.0  # standard deviations above which a step has a delay
_TAILS = np.geomspace(1.2, 1000, 400)  # candidate tail indices
_QUANTILES = (0.5, 0.9, 0.99)
_DRAWN_STEPS = 20_000  # steps drawn from the fit, to compare with the measured ones


@dataclass(frozen=True, slots=True)
class JitterFit:
    """The fitted ``jitter`` of all workers, and the ``slow`` workers."""

    jitter: CorrelatedJitterConfig
    slow: tuple[SlowWorkersConfig, ...]

    def quantiles(self, times: Factors, nodes: Sequence[int]) -> list[dict[str, float]]:
        """Return quantiles of whole steps over their mean: of ``times``, and drawn from the fit."""
        ranks = times.shape[1]
        per_node = np.unique(nodes, return_counts=True)[1].tolist()
        drawn = self.jitter.factors(ranks, _DRAWN_STEPS, 0, per_node)
        for each in self.slow:
            drawn = drawn * each.factors(ranks, 0, per_node)
        # A step ends with its slowest rank.
        whole_steps = [factors.max(axis=1) for factors in (times, drawn)]
        measured, simulated = (
            np.quantile(steps / steps.mean(), _QUANTILES) for steps in whole_steps
        )
        return [
            {"quantile": quantile, "measured": float(one), "drawn": float(other)}
            for quantile, one, other in zip(_QUANTILES, measured, simulated, strict=True)
        ]

    def block(self, ranks: Sequence[int]) -> dict[str, Any]:
        """Return a scenario's ``disturbance`` block; ``ranks`` numbers the columns of the times."""
        found: dict[str, Any] = {"jitter": self.jitter.model_dump(mode="json", exclude_none=True)}
        slow = [
            {"workers": [ranks[column] for column in each.workers or ()], "factor": each.factor}
            for each in self.slow
        ]
        return {**found, "slow": slow} if slow else found


def fit_jitter(times: Factors, nodes: Sequence[int]) -> JitterFit:
    """Fit a disturbance to step times of shape (steps, ranks).

    Raises DpsimError if it is not valid in a scenario, such as a stall as long as 10,000 steps.
    """
    try:
        return _fitted(times, nodes)
    except ValidationError as error:
        problem = first_problem(error)
        raise DpsimError(
            "step times: must show a disturbance that a scenario may have "
            f"({problem.where}: {problem.rule}), but show {problem.given:.6g}"
        ) from None


def _fitted(times: Factors, nodes: Sequence[int]) -> JitterFit:
    ranks = times.shape[1]
    # Shape (ranks,). Medians, because times still contain stalls and delays.
    medians = np.median(times, axis=0)
    relative_medians = medians / np.median(medians)
    slow = tuple(
        SlowWorkersConfig(workers=(int(rank),), factor=round(float(relative_medians[rank]), 4))
        for rank in np.flatnonzero(relative_medians > SLOW)
    )
    factors = times / medians

    # Shape (steps,). A stall raises the median over ranks, one rank's delay does not.
    job = np.median(factors, axis=1)
    stalled = job > STALLED
    stalls = _stalls(job, stalled)
    logs = np.log(factors[~stalled])
    logs -= np.median(logs, axis=0)
    # In logarithms, the parts of job, node and worker add up.
    delays, is_delayed = _delays(logs, "worker" if ranks > 1 else "job")
    logs = np.where(is_delayed, 0.0, logs)
    fields = {"kind": "correlated", **_levels(logs, np.asarray(nodes)), **delays, **stalls}
    return JitterFit(CorrelatedJitterConfig.model_validate(fields), slow)


def _stalls(job: Factors, stalled: NDArray[np.bool_]) -> dict[str, float]:
    """Return the fields of stalls: a factor of 1 if there are none."""
    count = int(stalled.sum())
    if not count:
        return {"stall": 1.0}
    length = float(job[stalled].mean() / job[~stalled].mean())
    return {"stall_every": round(len(job) / count, 2), "stall": round(length, 4)}


def _delays(logs: Factors, unit: str) -> tuple[dict[str, Any], NDArray[np.bool_]]:
    """Return the fields of delays, and which steps have one.

    A delay is a step far above the others. The excess of a Lomax delay over a limit is Lomax with
    the same index, which follows from the ratio of its 90th percentile to its median. Shorter
    delays count as jitter.
    """
    # The standard deviation of a normal, from quantiles, which delays hardly move.
    low, high = np.quantile(logs, [0.16, 0.84])
    limit = max(_DELAY_DEVIATIONS * (high - low) / 2, 0.01)
    is_delayed = logs > limit
    found, least = np.expm1(logs[is_delayed]), math.expm1(limit)
    if found.size < 2:
        return {}, is_delayed
    # A Lomax quantile is its scale times (1 - p)**(-1/a) - 1: a ratio of two depends only on a.
    median, far = np.quantile(found - least, [0.5, 0.9])
    ratios = (0.1 ** (-1 / _TAILS) - 1) / (0.5 ** (-1 / _TAILS) - 1)
    tail = float(_TAILS[np.argmin(np.abs(ratios - far / median))])
    fields = {
        "delay_chance": round(found.size / logs.size, 6),
        "delay": round(float(found.mean()), 6),
        "delay_tail": round(tail, 3),
    }
    return {**fields, "delay_of": unit}, is_delayed


def _levels(logs: Factors, nodes: NDArray[np.intp]) -> dict[str, float]:
    """Return standard deviations and memories of the job's, the nodes' and the workers' parts."""
    logs = logs - logs.mean()  # centred: a mean of products is then a covariance
    own, node, job = _parts(logs, logs, nodes)
    # The covariances of each step with the next are split in the same way.
    own_next, node_next, job_next = (
        _parts(logs[1:], logs[:-1], nodes) if len(logs) > 1 else (0.0, 0.0, 0.0)
    )
    if logs.shape[1] == 1:
        return {"sigma": 0.0, "job_sigma": _deviation(job), "memory": _memory(job_next, job)}
    # The job's variance is a difference that may be close to 0. Its covariance with the next step
    # therefore counts only above two standard errors of that of independent steps.
    by_chance = 2 * float((logs.mean(axis=1) ** 2).mean()) / math.sqrt(len(logs))
    return {
        "sigma": _deviation(own),
        "node_sigma": _deviation(node),
        "job_sigma": _deviation(job),
        "memory": _memory(own_next + node_next, own + node),
        "job_memory": _memory(job_next, job) if job_next > by_chance else 0.0,
    }


def _parts(logs: Factors, others: Factors, nodes: NDArray[np.intp]) -> tuple[float, float, float]:
    """Return the covariances of the workers' parts, the nodes' and the job's.

    A mean over n workers has the common part's variance and 1 / n of the workers', which is
    subtracted.
    """
    ranks = logs.shape[1]
    if ranks == 1:
        return 0.0, 0.0, float((logs * others).mean())
    members = [nodes == node for node in np.unique(nodes)]
    # Differences within a node are the workers' part. With one rank per node, node and worker
    # cannot be told apart, and both count as the workers' part.
    shared = [one for one in members if one.sum() > 1] or [np.full(ranks, fill_value=True)]
    own = float(np.mean([_covariance(logs[:, one], others[:, one]) for one in shared]))

    node = 0.0
    if len(members) > 1:
        sizes = np.array([one.sum() for one in members])
        node = _covariance(_means_of(members, logs), _means_of(members, others))
        node -= float((own / sizes).mean())
    whole = float((logs.mean(axis=1) * others.mean(axis=1)).mean())
    return own, node, whole - node / len(members) - own / ranks


def _means_of(members: Sequence[NDArray[np.bool_]], values: Factors) -> Factors:
    """Return the mean over each node's workers, (steps, nodes)."""
    return np.stack([values[:, one].mean(axis=1) for one in members], axis=1)


def _covariance(logs: Factors, others: Factors) -> float:
    """Return the covariance of columns about each step's mean over them, averaged over steps."""
    centred, others_centred = (each - each.mean(axis=1, keepdims=True) for each in (logs, others))
    return float((centred * others_centred).sum(axis=1).mean() / (logs.shape[1] - 1))


def _deviation(variance: float) -> float:
    """Return the standard deviation; a variance estimated as a difference may be below 0."""
    return round(math.sqrt(max(0.0, variance)), 6)


def _memory(with_next: float, variance: float) -> float:
    """Return the memory in steps, from the covariance of a step with the next; 0 if negligible.

    A correlation below 0.1 decays within half a step, and is noise if steps are few.
    """
    if variance <= 0 or with_next < 0.1 * variance:
        return 0.0
    return round(-1 / math.log(min(with_next / variance, 0.9999)), 3)

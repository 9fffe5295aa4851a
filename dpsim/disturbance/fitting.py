"""A disturbance fitted to measured step times, of whole steps or of each worker.

Parts are removed one after the other: workers that stay slow, stalls of all, delays. The remaining
variance is split into parts of the job (common to all workers in a step), of nodes and of workers.
The job has its own correlation from step to step, apart from that of nodes and workers. If only
whole steps were timed, workers cannot be distinguished, and all jitter is attributed to the job.
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
_APART = 4.0  # standard deviations above which a step has a delay
_TAILS = np.geomspace(1.2, 1000, 400)  # tail indices that are tried
_QUANTILES = (0.5, 0.9, 0.99)
_DRAWN = 20_000  # steps drawn from the fit, to compare with the measured ones


@dataclass(frozen=True, slots=True)
class JitterFit:
    """The fitted disturbance: ``jitter`` of all workers, and workers that are always ``slow``."""

    jitter: CorrelatedJitterConfig
    slow: tuple[SlowWorkersConfig, ...]

    def quantiles(self, times: Factors, nodes: Sequence[int]) -> list[dict[str, float]]:
        """Return quantiles of whole steps over their mean: of ``times``, and drawn from the fit.

        A step ends with its slowest rank.
        """
        ranks = times.shape[1]
        per_node = np.unique(nodes, return_counts=True)[1].tolist()
        drawn = self.jitter.factors(ranks, _DRAWN, 0, per_node)
        for each in self.slow:
            drawn = drawn * each.factors(ranks, 0, per_node)
        whole = [steps.max(axis=1) for steps in (times, drawn)]
        measured, simulated = (np.quantile(steps / steps.mean(), _QUANTILES) for steps in whole)
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

    Raises DpsimError if no scenario may have it, such as a stall of 10,000 steps.
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
    # Shape (ranks,). The median, since stalls and delays have not been removed yet.
    pace = np.median(times, axis=0)
    paces = pace / np.median(pace)
    slow = tuple(
        SlowWorkersConfig(workers=(int(rank),), factor=round(float(paces[rank]), 4))
        for rank in np.flatnonzero(paces > SLOW)
    )
    factors = times / pace

    # Shape (steps,). The median over ranks is long only where most ranks are: in a stall, not in
    # one rank's delay.
    job = np.median(factors, axis=1)
    stalled = job > STALLED
    stalls = _stalls(job, stalled)
    logs = np.log(factors[~stalled])
    logs -= np.median(logs, axis=0)
    # Use logarithms from here on, in which the parts of job, node and worker add up.
    delays, is_delayed = _delays(logs, "worker" if ranks > 1 else "job")
    logs = np.where(is_delayed, 0.0, logs)
    fields = {"kind": "correlated", **_levels(logs, np.asarray(nodes)), **delays, **stalls}
    return JitterFit(CorrelatedJitterConfig.model_validate(fields), slow)


def _stalls(job: Factors, stalled: NDArray[np.bool_]) -> dict[str, float]:
    """Return how often stalls occur and how long they are; a factor of 1 without stalls."""
    count = int(stalled.sum())
    if not count:
        return {"stall": 1.0}
    length = float(job[stalled].mean() / job[~stalled].mean())
    return {"stall_every": round(len(job) / count, 2), "stall": round(length, 4)}


def _delays(logs: Factors, of: str) -> tuple[dict[str, Any], NDArray[np.bool_]]:
    """Return the share, mean and tail index of delays, and which steps have one.

    A delay is far above the other steps. The excess of a Lomax delay over a limit is Lomax again,
    of the same index, which follows from the ratio of its 90th percentile to its median. Shorter
    delays stay in the spread of the other steps.
    """
    # Half the distance of the quantiles one standard deviation below and above the median of a
    # normal: delays would inflate the standard deviation itself, but do not move these.
    low, high = np.quantile(logs, [0.16, 0.84])
    limit = max(_APART * (high - low) / 2, 0.01)
    is_delayed = logs > limit
    found, least = np.expm1(logs[is_delayed]), math.expm1(limit)
    if found.size < 2:
        return {}, is_delayed
    # The excess over the limit. A Lomax quantile is its scale times (1 - p)**(-1/a) - 1: in a ratio
    # of two the scale cancels, and the tail index a is left.
    median, far = np.quantile(found - least, [0.5, 0.9])
    spreads = (0.1 ** (-1 / _TAILS) - 1) / (0.5 ** (-1 / _TAILS) - 1)
    tail = float(_TAILS[np.argmin(np.abs(spreads - far / median))])
    told = {
        "delay_chance": round(found.size / logs.size, 6),
        "delay": round(float(found.mean()), 6),
        "delay_tail": round(tail, 3),
    }
    return {**told, "delay_of": of}, is_delayed


def _levels(logs: Factors, nodes: NDArray[np.intp]) -> dict[str, float]:
    """Return standard deviations and memories of the job's, the nodes' and the workers' parts.

    Covariances of steps with themselves, and of each with the next, are split in the same way.
    """
    logs = logs - logs.mean()  # centred, so that a mean of products is a covariance
    own, node, job = _parts(logs, logs, nodes)
    # A single step has no next one, so there is no memory.
    own_next, node_next, job_next = (
        _parts(logs[1:], logs[:-1], nodes) if len(logs) > 1 else (0.0, 0.0, 0.0)
    )
    if logs.shape[1] == 1:
        return {"sigma": 0.0, "job_sigma": _deviation(job), "memory": _memory(job_next, job)}
    # The job's variance is a difference that may be close to 0: its covariance with the next step
    # counts only above two standard errors of that of means over ranks without memory.
    by_chance = 2 * float((logs.mean(axis=1) ** 2).mean()) / math.sqrt(len(logs))
    return {
        "sigma": _deviation(own),
        "node_sigma": _deviation(node),
        "job_sigma": _deviation(job),
        "memory": _memory(own_next + node_next, own + node),
        "job_memory": _memory(job_next, job) if job_next > by_chance else 0.0,
    }


def _parts(logs: Factors, others: Factors, nodes: NDArray[np.intp]) -> tuple[float, float, float]:
    """Return the covariances of the workers' own parts, the nodes' and the job's.

    The mean over n workers varies by the common part and by 1 / n of the workers' own variance,
    which is subtracted.
    """
    ranks = logs.shape[1]
    if ranks == 1:
        return 0.0, 0.0, float((logs * others).mean())
    members = [nodes == node for node in np.unique(nodes)]
    # Within a node the common parts of the job and of the node cancel. With one rank per node, node
    # and worker cannot be distinguished, and all of it counts as the workers'.
    deep = [one for one in members if one.sum() > 1] or [np.full(ranks, fill_value=True)]
    own = float(np.mean([_among(logs[:, one], others[:, one]) for one in deep]))

    node = 0.0
    if len(members) > 1:
        sizes = np.array([one.sum() for one in members])
        node = _among(_means_of(members, logs), _means_of(members, others))
        node -= float((own / sizes).mean())
    whole = float((logs.mean(axis=1) * others.mean(axis=1)).mean())
    return own, node, whole - node / len(members) - own / ranks


def _means_of(members: Sequence[NDArray[np.bool_]], values: Factors) -> Factors:
    """Return the mean over each node's workers, (steps, nodes)."""
    return np.stack([values[:, one].mean(axis=1) for one in members], axis=1)


def _among(logs: Factors, others: Factors) -> float:
    """Return the covariance of columns about each step's mean over them, averaged over steps."""
    apart, others_apart = (each - each.mean(axis=1, keepdims=True) for each in (logs, others))
    return float((apart * others_apart).sum(axis=1).mean() / (logs.shape[1] - 1))


def _deviation(variance: float) -> float:
    """Return the standard deviation; a variance estimated as a difference may be below 0."""
    return round(math.sqrt(max(0.0, variance)), 6)


def _memory(with_next: float, variance: float) -> float:
    """Return the memory in steps, from the covariance of a step with the next; 0 where negligible.

    A correlation below 0.1 decays within half a step, and is noise where there are few steps.
    """
    if variance <= 0 or with_next < 0.1 * variance:
        return 0.0
    return round(-1 / math.log(min(with_next / variance, 0.9999)), 3)

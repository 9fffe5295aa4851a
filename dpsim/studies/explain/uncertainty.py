"""Attribute the interval of a step to uncertain inputs, by Sobol's indices of the variance.

The inputs are those of the interval, with the same distributions, and the draws of jitter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.uncertainty import CONFIDENCE, ENDS, ModelError
from dpsim.engine import Job, Run, step_errors

_SAMPLES = 2**13  # a power of 2, as Sobol's sequence requires; indices are accurate to about 0.01
_ROUNDING = 1e-12  # of a step: less is rounding
# By input: title, unit of its interval, and how to narrow it.
_DESCRIPTIONS = {
    "computing": (
        "efficiency of computing: measured over predicted time",
        "1",
        "measure one step: calibration: {step_time: ...}",
    ),
    "communication": (
        "rates of links and latency of the library: measured over predicted time",
        "1",
        "measure messages on your nodes: dpsim validate calibrate",
    ),
    "jitter": (
        "draws of jitter and of slow workers: added to the mean step",
        "s",
        "simulate more steps: run.steps",
    ),
}


class _Distribution(Protocol):
    def ppf(self, levels: FloatArray, /) -> FloatArray: ...


@dataclass(frozen=True, slots=True)
class UncertainInput:
    """An uncertain input, and its contribution to the variance of the mean step.

    ``low`` and ``high`` are its 90 % interval in ``unit``. ``alone_s`` is the step's interval if
    only this input were uncertain, ``without_s`` if only the others were. ``first_order`` is the
    share of the variance that would vanish if the input were known, ``total`` the share that would
    remain if all others were; None if nothing is uncertain.
    """

    name: str
    title: str
    unit: str
    low: float
    high: float
    basis: str
    narrow: str
    first_order: float | None = None
    total: float | None = None
    alone_s: tuple[float, float] = (0.0, 0.0)
    without_s: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """The sources of a step's interval, the largest contribution first.

    ``low`` to ``high`` (s) is the interval. ``latency_share`` is the share of the communication
    time that remains if almost nothing is sent; None without communication.
    """

    step_time_s: float
    low: float
    high: float
    inputs: tuple[UncertainInput, ...]
    latency_share: float | None

    def to_json(self) -> dict[str, Any]:
        """Return the object ``uncertainty`` of ``dpsim explain --json``."""
        inputs = []
        for each in self.inputs:
            row = asdict(each)
            for name in ("alone_s", "without_s"):
                row[name] = dict(zip(("low", "high"), row[name], strict=True))
            inputs.append(row)
        return {
            "method": "sobol",
            "samples": _SAMPLES * (len(self.inputs) + 2),
            "confidence": CONFIDENCE,
            "low": self.low,
            "high": self.high,
            "latency_share": self.latency_share,
            "inputs": inputs,
        }


def uncertainty_of(run: Run) -> Uncertainty:
    """Attribute the interval of the run's mean step to its uncertain inputs.

    First-order and total indices: Sobol 2001, with scipy's estimators (Saltelli et al. 2010).
    """
    errors = step_errors(run.job, run.steps)
    step = run.step_time
    jitter = _Empirical(run.result.resampled_means - step)
    sending = errors.sending if len(errors.parts) > 1 else ModelError("nothing is communicated")
    inputs = [
        _input("computing", errors.computing, errors.computing.basis),
        # Although a log of nccl-tests corrects the time, the interval is the uncorrected model's.
        _input("communication", sending, sending.basis),
        _input("jitter", jitter, "the mean of the run's steps, resampled"),
    ]
    if inputs[2].high == inputs[2].low:
        inputs[2] = replace(inputs[2], basis="all steps are alike")
    distributions: list[_Distribution] = [errors.computing, errors.sending, jitter]

    def model(inputs: FloatArray) -> FloatArray:
        """Return the mean step (s) of inputs of shape (3, samples)."""
        compute, send, jitter = inputs
        return np.asarray(errors.seconds(compute, send) + jitter)

    first, total = _indices(model, distributions, step)
    alone, without = _intervals(model, distributions)
    attributed = [
        replace(each, first_order=first[i], total=total[i], alone_s=alone[i], without_s=without[i])
        for i, each in enumerate(inputs)
    ]
    # The sort is stable, so inputs without a contribution keep their order.
    attributed.sort(key=lambda each: -(each.total or 0.0))
    low, high = _bounds(model(_sample(distributions)))
    share = _latency_share(run.job) if len(errors.parts) > 1 else None
    return Uncertainty(step, low, high, tuple(attributed), share)


@dataclass(frozen=True, slots=True, eq=False)
class _Empirical:
    """An empirical distribution, given by its draws."""

    draws: FloatArray

    def ppf(self, levels: FloatArray) -> FloatArray:
        return np.asarray(np.quantile(self.draws, levels))


def _input(name: str, distribution: _Distribution, basis: str) -> UncertainInput:
    low, high = distribution.ppf(np.array(ENDS)).tolist()
    title, unit, narrow = _DESCRIPTIONS[name]
    return UncertainInput(name, title, unit, low, high, basis, narrow)


def _indices(
    model: Callable[[FloatArray], FloatArray], distributions: Sequence[_Distribution], step: float
) -> tuple[list[float | None], list[float | None]]:
    """Return the first-order and total indices of each input."""
    from scipy.stats import sobol_indices

    # If the step does not vary, there is no variance to attribute.
    if np.ptp(model(_sample(distributions))) <= _ROUNDING * step:
        nothing: list[float | None] = [None] * len(distributions)
        return nothing, nothing
    # scipy's stubs only know univariate distributions.
    dists: list[Any] = list(distributions)
    rng = np.random.default_rng(0)
    indices = sobol_indices(func=model, n=_SAMPLES, dists=dists, rng=rng)
    # Estimates near 0 or 1 may be slightly outside.
    first, total = (np.clip(each, 0.0, 1.0) for each in (indices.first_order, indices.total_order))
    return first.tolist(), total.tolist()


def _intervals(
    model: Callable[[FloatArray], FloatArray], distributions: Sequence[_Distribution]
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return the step's intervals if only each input is uncertain, and if only the others are."""
    drawn = _sample(distributions)
    # For the prediction, both factors are 1 and the added jitter is 0.
    predicted = np.broadcast_to(np.array([[1.0], [1.0], [0.0]]), drawn.shape)
    alone, without = [], []
    for i in range(len(drawn)):
        is_this = (np.arange(len(drawn)) == i)[:, None]
        alone.append(_bounds(model(np.where(is_this, drawn, predicted))))
        without.append(_bounds(model(np.where(is_this, predicted, drawn))))
    return alone, without


def _sample(distributions: Sequence[_Distribution]) -> FloatArray:
    """Return draws of the inputs, the same each time, of shape (inputs, samples)."""
    levels = np.random.default_rng(0).uniform(size=(len(distributions), _SAMPLES))
    return np.array([each.ppf(row) for each, row in zip(distributions, levels, strict=True)])


def _bounds(seconds: FloatArray) -> tuple[float, float]:
    low, high = np.quantile(seconds, ENDS)
    return float(low), float(high)


def _latency_share(job: Job) -> float:
    """Return the share of the collectives' time that remains if they send one element."""
    stages = [stage for calls in job.calls_of.values() for call in calls for stage in call.stages]
    starts = np.zeros(job.workers)
    latency = transfer = 0.0
    for name, nbytes in stages:
        model = job.collective(name)
        transfer += float(model.finish(starts, nbytes).finishes.max())
        latency += float(model.finish(starts, min(nbytes, model.itemsize)).finishes.max())
    return min(1.0, latency / transfer) if transfer else 0.0

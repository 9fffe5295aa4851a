"""Which uncertain input makes the interval of a step.

The inputs are those that its interval is drawn from, with the same distributions, and the draws of
jitter. How much each brings are Sobol's indices of the variance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.doubt import CONFIDENCE, ENDS, Doubt
from dpsim.engine import Job, Run, StepDoubts, step_doubts

_SAMPLES = 2**13  # a power of 2, as the sequence wants; indices are right to about 0.01
_NONE = 1e-12  # of a step: rounding


class _Distribution(Protocol):
    def ppf(self, levels: FloatArray, /) -> FloatArray: ...


@dataclass(frozen=True, slots=True)
class UncertainInput:
    """One input, and what it brings to the variance of the mean step.

    ``low`` and ``high`` in ``unit``: between which it lies with a probability of 0.9. ``alone_s``:
    the step's interval if it alone were uncertain; ``without_s`` if all others were.
    ``first_order`` is the share of the variance that goes if it were known, ``total`` the share
    that stays if all others were; None where nothing is uncertain.
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
    """What makes a step's interval, the input that brings most first.

    ``low`` to ``high`` (s) is the interval with all of them, jitter's draws as well.
    ``latency_share``: of communication's seconds, how many there are with next to nothing to send;
    None where nothing is sent.
    """

    step_time_s: float
    low: float
    high: float
    inputs: tuple[UncertainInput, ...]
    latency_share: float | None

    def to_json(self) -> dict[str, Any]:
        """The object ``uncertainty`` of ``dpsim explain --json``."""
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
    """Which uncertain input makes the interval of the run's mean step.

    First-order and total indices (Sobol 2001; estimators of Saltelli et al. 2010, by scipy).
    """
    doubts = step_doubts(run.job, run.steps)
    step = run.step_time
    jitter = _Drawn(run.result.resampled_means - step)
    inputs = [_computing(doubts.computing), _communication(doubts), _jitter(jitter)]
    distributions: list[_Distribution] = [doubts.computing, doubts.sending, jitter]
    model = _step_model(doubts)

    first, total = _indices(model, distributions, step)
    alone, without = _intervals(model, distributions)
    found = [
        replace(each, first_order=first[i], total=total[i], alone_s=alone[i], without_s=without[i])
        for i, each in enumerate(inputs)
    ]
    # Stable: inputs that bring nothing keep their order.
    found.sort(key=lambda each: -(each.total or 0.0))
    low, high = _ends(model(_sampled(distributions)))
    share = _latency_share(run.job) if len(doubts.parts) > 1 else None
    return Uncertainty(step, low, high, tuple(found), share)


@dataclass(frozen=True, slots=True, eq=False)
class _Drawn:
    """A distribution of which draws are known."""

    draws: FloatArray

    def ppf(self, levels: FloatArray) -> FloatArray:
        return np.asarray(np.quantile(self.draws, levels))


def _computing(doubt: Doubt) -> UncertainInput:
    low, high = doubt.ppf(np.array(ENDS)).tolist()
    narrow = "measure one step: calibration: {step_time: ...}"
    title = "efficiency of computing: measured over predicted time"
    return UncertainInput("computing", title, "1", low, high, doubt.basis, narrow)


def _communication(doubts: StepDoubts) -> UncertainInput:
    known = len(doubts.parts) == 1
    doubt = Doubt("nothing is communicated") if known else doubts.sending
    low, high = doubt.ppf(np.array(ENDS)).tolist()
    # A log of nccl-tests corrects the time, but the interval stays that of the uncorrected model.
    narrow = "measure messages on your nodes: dpsim validate calibrate"
    title = "rates of links and latency of the library: measured over predicted time"
    return UncertainInput("communication", title, "1", low, high, doubt.basis, narrow)


def _jitter(drawn: _Drawn) -> UncertainInput:
    low, high = drawn.ppf(np.array(ENDS)).tolist()
    basis = "the mean of the run's steps, resampled" if high > low else "all steps are alike"
    narrow = "simulate more steps: run.steps"
    title = "draws of jitter and of slow workers: added to the mean step"
    return UncertainInput("jitter", title, "s", low, high, basis, narrow)


def _step_model(doubts: StepDoubts) -> Callable[[FloatArray], FloatArray]:
    """The mean step (s) from inputs of the shape (3, samples)."""

    def step(inputs: FloatArray) -> FloatArray:
        compute, send, jitter = inputs
        return np.asarray(doubts.seconds(compute, send) + jitter)

    return step


def _indices(
    model: Callable[[FloatArray], FloatArray], distributions: Sequence[_Distribution], step: float
) -> tuple[list[float | None], list[float | None]]:
    """First-order and total indices of each input."""
    from scipy.stats import sobol_indices

    # Where nothing varies there are no shares of it.
    if np.ptp(model(_sampled(distributions))) <= _NONE * step:
        nothing: list[float | None] = [None] * len(distributions)
        return nothing, nothing
    # The stubs of scipy know distributions of one number at a time alone.
    dists: list[Any] = list(distributions)
    rng = np.random.default_rng(0)
    found = sobol_indices(func=model, n=_SAMPLES, dists=dists, rng=rng)
    # An estimate of a share near 0 or 1 may lie just beyond.
    first, total = (np.clip(each, 0.0, 1.0) for each in (found.first_order, found.total_order))
    return first.tolist(), total.tolist()


def _intervals(
    model: Callable[[FloatArray], FloatArray], distributions: Sequence[_Distribution]
) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """The step's interval with each input alone uncertain, and with all others."""
    drawn = _sampled(distributions)
    # As predicted: both factors 1, and nothing added.
    predicted = np.broadcast_to(np.array([[1.0], [1.0], [0.0]]), drawn.shape)
    alone, without = [], []
    for i in range(len(drawn)):
        is_this = (np.arange(len(drawn)) == i)[:, None]
        alone.append(_ends(model(np.where(is_this, drawn, predicted))))
        without.append(_ends(model(np.where(is_this, predicted, drawn))))
    return alone, without


def _sampled(distributions: Sequence[_Distribution]) -> FloatArray:
    """Draws of the inputs, (inputs, samples), the same each time."""
    at = np.random.default_rng(0).uniform(size=(len(distributions), _SAMPLES))
    return np.array([each.ppf(row) for each, row in zip(distributions, at, strict=True)])


def _ends(seconds: FloatArray) -> tuple[float, float]:
    low, high = np.quantile(seconds, ENDS)
    return float(low), float(high)


def _latency_share(job: Job) -> float:
    """Of the seconds of a step's collectives, those that are there with one element to send."""
    stages = [stage for calls in job.calls_of.values() for call in calls for stage in call.stages]
    together = np.zeros(job.workers)
    latency = transfer = 0.0
    for name, nbytes in stages:
        model = job.collective(name)
        transfer += float(model.finish(together, nbytes).finishes.max())
        latency += float(model.finish(together, min(nbytes, model.itemsize)).finishes.max())
    return min(1.0, latency / transfer) if transfer else 0.0

"""Several learners on one GPU: replicas of the model, each with its own batch.

Small batches leave a GPU partly idle; k replicas of batch b fill it like one batch of k b. With
``t(B)`` the seconds of forward and backward for B samples in flight (the utilisation curve is U(B)
= B / t(B) samples per second), k learners take

    max(k b / U(k b), t(b)) = max(t(k b), t(b)),

all samples at the throughput of k b, but at least one learner's latency. Each learner updates its
own weights, which takes k times the optimiser's traffic; their host threads run in parallel. Before
communication, each layer's gradients are averaged on the GPU, which moves (k + 1) S bytes for S
bytes of gradient. Reading k copies of the weights is left out.

Source: Koliousis et al., "Crossbow: Scaling Deep Learning with Small Batch Sizes on Multi-GPU
Servers", VLDB 12(11), 2019; its tuner (section 4.4) adds learners as long as throughput grows by
more than a threshold, and so does `best_learners`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt

from dpsim.base.config import Config
from dpsim.base.errors import DpsimError
from dpsim.workload.compute_times import LayerTimes
from dpsim.workload.layer import Model

MOST_LEARNERS = 64
# Minimum growth of throughput for another learner: assumed; Crossbow's user sets it.
LEAST_GAIN = 0.05
_GRADIENT_BYTES = 4  # of an element: fp32

# Seconds of forward and backward by samples in flight.
StepTime = Callable[[int], float]


class UtilisationPoint(Config):
    """A measured point of the utilisation curve: the throughput of a single learner on a GPU."""

    batch: PositiveInt = Field(description="Samples in flight.")
    samples_per_s: float = Field(
        ge=1e-6,
        le=1e12,
        description="Samples per second of the passes alone, without update or recomputation.",
    )


def measured_time(points: Sequence[UtilisationPoint]) -> StepTime:
    """Return a function for seconds by samples in flight, from measured throughput.

    Linear between points, constant below the first, and proportional to samples above the last.
    Raises DpsimError unless batches rise and seconds do not fall.
    """
    batches = np.array([point.batch for point in points], dtype=float)
    if not len(batches) or (np.diff(batches) <= 0).any():
        raise DpsimError(
            "workload.utilisation: must be points of rising batch, but got "
            f"{batches.astype(int).tolist()}"
        )
    seconds = batches / np.array([point.samples_per_s for point in points])
    falls = np.diff(seconds) < 0
    if falls.any():
        later = int(np.argmax(falls)) + 1
        raise DpsimError(
            "workload.utilisation: must not take less time for a larger batch, but batch "
            f"{int(batches[later])} takes {seconds[later]:.4g} s and batch "
            f"{int(batches[later - 1])} {seconds[later - 1]:.4g} s"
        )

    def time(batch: int) -> float:
        if batch < batches[-1]:
            return float(np.interp(batch, batches, seconds))
        return float(seconds[-1] * max(batch / batches[-1], 1))

    return time


def stretch(time: StepTime, batch: int, learners: int) -> float:
    """Return a pass's time with ``learners`` of ``batch`` samples over that of one, at least 1."""
    return max(time(learners * batch) / time(batch), 1.0)


def averaging(model: Model, learners: int, bandwidth: float) -> NDArray[np.float64]:
    """Return the seconds per layer to average gradients in memory of ``bandwidth`` B/s."""
    # Reads each learner's gradient, and writes the mean.
    moved = learners + 1 if learners > 1 else 0
    return moved * _GRADIENT_BYTES * model.vector("trained_weights") / bandwidth


def shared_times(
    one_learner: LayerTimes, factor: float, average: NDArray[np.float64]
) -> LayerTimes:
    """Return the times of a step in which learners share the GPU.

    ``one_learner`` has the passes of one learner and the update of all; ``factor`` stretches the
    passes. Learners average their gradients, ``average`` s per layer, in the last pass.
    """
    return replace(
        one_learner,
        forward=one_learner.forward * factor,
        backward=one_learner.backward * factor,
        merging=average,
    )


@dataclass(frozen=True, slots=True)
class LearnersRow:
    """The best number of learners for a batch, and the throughput with one and with the best."""

    batch: int
    best: int
    samples_per_s_alone: float
    samples_per_s_best: float


def best_learners(step: Callable[[int, int], float], batch: int, most: int) -> LearnersRow:
    """Return the largest number of learners that pay off: each gains `LEAST_GAIN` on average.

    ``step(batch, k)`` returns the seconds of a step. A second learner alone may not pay off,
    because averaging starts with it. There are at most ``most``.
    """
    rates = {k: k * batch / step(batch, k) for k in range(1, min(most, MOST_LEARNERS) + 1)}
    best = 1
    for k, rate in rates.items():
        if rate > rates[best] * (1 + LEAST_GAIN) ** (k - best):
            best = k
    return LearnersRow(batch, best, rates[1], rates[best])


def learners_table(
    step: Callable[[int, int], float], most: Callable[[int], int], batches: Iterable[int]
) -> tuple[LearnersRow, ...]:
    """Return the best number of learners for each batch that fits.

    ``most(batch)`` returns how many learners fit into memory.
    """
    return tuple(best_learners(step, batch, most(batch)) for batch in batches if most(batch) > 0)

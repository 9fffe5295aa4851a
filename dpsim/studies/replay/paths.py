"""The workers' weights during a replayed training, in the plane in which they move most.

The plane is spanned by the first two principal directions of all weights, through their mean; the
loss is measured on a grid in it. Source of the method: Li et al., "Visualizing the loss landscape
of neural nets", NeurIPS 2018, section 7.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsim.base.arrays import FloatArray, RealArray
from dpsim.scenario import Scenario
from dpsim.studies.replay.curve import CurveRecorder, Progress
from dpsim.studies.replay.replay import Replay, replay_with_recorder
from dpsim.studies.replay.trainer import Trainer

_GRID = 25  # points in each direction
_MARGIN = 0.25  # of the paths' extent, on each side


class _PathRecorder(CurveRecorder):
    """Records the weights of all workers with the measurements."""

    def __init__(self, *given: object) -> None:
        super().__init__(*given)  # type: ignore[arg-type]
        self.kept: list[RealArray] = []
        self.centres: list[RealArray] = []

    def record(
        self, done: int, time: float, samples: int, models: RealArray, everyone: RealArray
    ) -> None:
        """Measure the mean of ``models``, and keep ``everyone``'s."""
        super().record(done, time, samples, models, everyone)
        self.kept.append(everyone.copy())
        self.centres.append(models.mean(axis=0))


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Weights projected on a plane.

    ``workers`` (points, workers, 2) are each worker's weights and ``centre`` (points, 2) the
    measured ones, in units of length of the weights. ``loss`` (ups, acrosses) is the training loss
    on a grid at ``across`` and ``up``. ``kept`` is the share of the workers' variance within the
    plane.
    """

    replay: Replay
    workers: FloatArray
    centre: FloatArray
    across: FloatArray
    up: FloatArray
    loss: FloatArray
    kept: float


def weight_paths(scenario: Scenario, progress: Progress = lambda what, done, total: None) -> Paths:
    """Train as `replay` does, and project the weights. Raises DpsimError."""
    result, trainer, recorder = replay_with_recorder(scenario, progress, _PathRecorder)
    assert isinstance(recorder, _PathRecorder)
    weights = np.stack(recorder.kept)
    # Project all workers at all times together.
    flat = weights.reshape(-1, weights.shape[2])
    middle = flat.mean(axis=0)
    # The rows of `directions` are the principal directions, the strongest first.
    _, strengths, directions = np.linalg.svd(flat - middle, full_matrices=False)
    plane = directions[:2]
    workers = (weights - middle) @ plane.T
    centre = (np.stack(recorder.centres) - middle) @ plane.T
    across, up = (_grid(np.append(workers[..., axis], centre[:, axis])) for axis in (0, 1))
    loss = _surface(trainer, middle, plane, across, up, progress)
    total = float((strengths**2).sum())
    share = float((strengths[:2] ** 2).sum()) / total if total else 1.0
    return Paths(result, workers, centre, across, up, loss, share)


def _grid(values: FloatArray) -> FloatArray:
    low, high = float(values.min()), float(values.max())
    # Give the grid some width even if paths do not move in a direction.
    margin = _MARGIN * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, _GRID)


def _surface(
    trainer: Trainer,
    middle: FloatArray,
    plane: FloatArray,
    across: FloatArray,
    up: FloatArray,
    progress: Progress,
) -> FloatArray:
    """Return the training loss at each point of the grid."""
    loss = np.empty((len(up), len(across)))
    for row, y in enumerate(up):
        progress("measuring the surface", row, len(up))
        for column, x in enumerate(across):
            weights = middle + x * plane[0] + y * plane[1]
            loss[row, column], _ = trainer.measure(weights)
    return loss

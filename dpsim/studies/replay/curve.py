"""Loss and accuracy against simulated seconds, samples and bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpsim.base.arrays import RealArray
from dpsim.studies.replay.trainer import Trainer

Progress = Callable[[str, int, int], None]


class Point(NamedTuple):
    """The state at ``time_s``, after ``samples`` trained samples and ``bytes`` sent in all.

    Loss and accuracy are of the (mean) model. ``disagreement``: the root mean square distance of
    the workers' models from their mean; 0 if they share one.
    """

    time_s: float
    samples: int
    bytes: float
    loss: float
    accuracy: float
    disagreement: float


@dataclass(frozen=True, slots=True)
class Curve:
    """Points by time; the first is before training, the last after it."""

    points: tuple[Point, ...]

    def first(self, accuracy: float) -> Point | None:
        """Return the first point that has reached ``accuracy``."""
        return next((point for point in self.points if point.accuracy >= accuracy), None)

    def column(self, name: str) -> RealArray:
        """Return one quantity of all points."""
        return np.array([getattr(point, name) for point in self.points])

    def to_json(self) -> list[dict[str, Any]]:
        """Return a row for each point; null for a loss that is no longer finite."""
        return [
            {key: finite(value) for key, value in point._asdict().items()} for point in self.points
        ]


def finite(value: float) -> float | None:
    """Return ``value``, None if it is not finite."""
    return value if math.isfinite(value) else None


class CurveRecorder:
    """Measures the model ``points`` times over ``updates`` updates, and at both ends.

    ``bytes_after[u]`` is the total sent when update u is applied.
    """

    def __init__(
        self, trainer: Trainer, updates: int, bytes_after: RealArray, progress: Progress
    ) -> None:
        self.points: list[Point] = []
        self._trainer = trainer
        self._updates = updates
        self._bytes_after = bytes_after
        self._progress = progress
        # A set, because points may coincide.
        due = np.linspace(0, updates, trainer.config.points + 1).round().astype(int)
        self._due = set(due.tolist())

    def is_due(self, done: int) -> bool:
        """Return whether to measure after ``done`` updates; shows the progress."""
        self._progress("training", done, self._updates)
        return done in self._due

    def record(
        self, done: int, time: float, samples: int, models: RealArray, everyone: RealArray
    ) -> None:
        """Measure the mean of ``models`` (n, P); ``everyone`` (workers, P) has all workers'."""
        centre, disagreement = models[0], 0.0
        if len(models) > 1:
            centre = models.mean(axis=0)
            squared_distances = ((models - centre) ** 2).sum(axis=1)
            disagreement = float(np.sqrt(squared_distances.mean()))
        sent = float(self._bytes_after[done - 1]) if done else 0.0
        loss, accuracy = self._trainer.measure(centre)
        self.points.append(Point(time, samples, sent, loss, accuracy, disagreement))

"""Loss and accuracy against simulated seconds, samples and bytes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpsim.base.arrays import RealArray
from dpsim.studies.replay.crew import Crew

Progress = Callable[[str, int, int], None]


class Point(NamedTuple):
    """At ``time_s``, when ``samples`` had been trained on and ``bytes`` sent in all.

    The loss and accuracy of the (mean) model.

    ``disagreement``: the root mean square distance of the workers' models from their mean; 0 where
    they share one.
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
        """The first point that has reached ``accuracy``."""
        return next((point for point in self.points if point.accuracy >= accuracy), None)

    def column(self, name: str) -> RealArray:
        """One quantity of all points."""
        return np.array([getattr(point, name) for point in self.points])

    def to_json(self) -> list[dict[str, Any]]:
        """A row for each point; null where a loss is no longer finite."""
        return [
            {key: finite(value) for key, value in point._asdict().items()} for point in self.points
        ]


def finite(value: float) -> float | None:
    """``value``, None where it is not finite."""
    return value if math.isfinite(value) else None


class Watch:
    """Measures the model ``points`` times in ``updates`` updates, and at both ends.

    ``bytes_after[u]`` is what has been sent when update u is applied.
    """

    def __init__(
        self, crew: Crew, updates: int, bytes_after: RealArray, progress: Progress
    ) -> None:
        self.points: list[Point] = []
        self._crew, self._updates, self._bytes, self._progress = (
            crew,
            updates,
            bytes_after,
            progress,
        )
        self._wanted = set(
            np.linspace(0, updates, crew.config.points + 1).round().astype(int).tolist()
        )

    def wants(self, done: int) -> bool:
        """Whether to measure after ``done`` updates; shows the progress."""
        self._progress("training", done, self._updates)
        return done in self._wanted

    def note(self, done: int, time: float, samples: int, models: RealArray) -> None:
        """Measure the mean of ``models`` (n, P)."""
        centre = models.mean(axis=0) if len(models) > 1 else models[0]
        apart = (
            float(np.sqrt(((models - centre) ** 2).sum(axis=1).mean())) if len(models) > 1 else 0.0
        )
        sent = float(self._bytes[done - 1]) if done else 0.0
        self.points.append(Point(time, samples, sent, *self._crew.measure(centre), apart))

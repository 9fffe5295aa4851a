"""What the physics leaves of rows that are alike: a Gaussian process over the jobs' logarithms.

A row's kin are the fitted rows of like width, batch and depth. Their residuals correct it by

    ln(step) += k(row, kin) (K + noise^2)^-1 residuals,
    k = spread^2 exp(-1/2 sum of ((log2 a - log2 b) / octaves)^2),

so that a row unlike all of them is predicted by the physics alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from validate.published.tables import constants_file


@dataclass(frozen=True, eq=False)
class Kin:
    """The fitted jobs' logarithms in units of reach, and the weight of each one's residual."""

    places: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, columns: Mapping[str, FloatArray], residual: FloatArray) -> Kin:
        """The correction by rows with these columns that physics leaves ``residual`` of (ln)."""
        settings = _settings()
        places = _places(columns)
        noise = float(settings["noise"]) ** 2 * np.eye(len(residual))
        # Solved once: each prediction is then a sum over kin.
        weights = np.linalg.solve(_alike(places, places) + noise, residual)
        return cls(places, np.asarray(weights, dtype=np.float64))

    def correction(self, columns: Mapping[str, FloatArray]) -> FloatArray:
        """By which logarithm rows with these columns take longer than physics says."""
        return np.asarray(_alike(_places(columns), self.places) @ self.weights)


def _settings() -> dict[str, Any]:
    found: dict[str, Any] = constants_file("vtrain/settings.yaml")["kin"]
    return found


def _places(columns: Mapping[str, FloatArray]) -> FloatArray:
    """A row each: the logarithms of its columns, each over how far likeness reaches."""
    reach: Mapping[str, float] = _settings()["octaves"]
    return np.stack([np.log2(columns[name]) / octaves for name, octaves in reach.items()], axis=1)


def _alike(places: FloatArray, others: FloatArray) -> FloatArray:
    """The covariance of the residuals of each two rows."""
    # (rows, other rows, columns), summed over the columns.
    apart = ((places[:, None, :] - others[None, :, :]) ** 2).sum(axis=-1)
    return np.asarray(float(_settings()["spread"]) ** 2 * np.exp(-0.5 * apart))

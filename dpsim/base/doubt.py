"""How far a prediction may be off, by what models left of measurements that no fit saw.

A `Doubt` is one source of error, a `PredictionInterval` what doubts make of a prediction.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray

CONFIDENCE = 0.9
ENDS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
_DRAWS = 4000


@dataclass(frozen=True, slots=True)
class PredictionInterval:
    """Seconds, or bytes, between which a prediction lies with a probability of ``confidence``.

    ``basis``: the measurements by which the models were judged. ``extrapolated``: what is unlike
    all of them, for which whole generations were left out; a sentence each. ``drawn``: the
    prediction under each draw of the errors, where it was drawn.
    """

    low: float
    high: float
    confidence: float
    basis: str
    extrapolated: tuple[str, ...]
    drawn: FloatArray | None = field(default=None, repr=False, compare=False)

    def to_json(self) -> dict[str, Any]:
        """The object ``interval_s``, or ``interval_bytes``, of JSON answers."""
        return {
            "low": self.low,
            "high": self.high,
            "confidence": self.confidence,
            "basis": self.basis,
            "extrapolated": list(self.extrapolated),
        }

    def includes(self, other: PredictionInterval, scale: float = 1.0) -> bool:
        """Whether ``scale`` times the other is not told apart from this one by the models' errors.

        An error that both share, of the same GPU or network, is the same draw in both, and cancels.
        """
        assert self.drawn is not None
        assert other.drawn is not None
        low, high = np.quantile(scale * other.drawn - self.drawn, ENDS)
        rounding = 1e-9 * abs(self.high)  # what is the same leaves that much between them
        return bool(low <= rounding and high >= -rounding)


@dataclass(frozen=True, slots=True)
class Doubt:
    """What is known of an error: quantiles of ln(measured / predicted); no error if there are none.

    Between quantiles it is interpolated by straight lines; beyond the outermost nothing is drawn.
    ``of``: whose error it is, such as a GPU's or a network's. Doubts of the same are one error, by
    ``drawn_as`` also those of another basis.
    """

    basis: str
    levels: Sequence[float] = ()
    quantiles: Sequence[float] = ()
    extrapolated: tuple[str, ...] = ()
    of: str = ""
    drawn_as: str = ""

    def around(self, predicted: float) -> PredictionInterval:
        """The interval of what is predicted to take so many seconds, or bytes."""
        if not self.levels:
            return PredictionInterval(
                predicted, predicted, CONFIDENCE, self.basis, self.extrapolated
            )
        low, high = self.ppf(np.array(ENDS)) * predicted
        return PredictionInterval(
            float(low), float(high), CONFIDENCE, self.basis, self.extrapolated
        )

    def ppf(self, levels: FloatArray) -> FloatArray:
        """Measured over predicted at ``levels`` from 0 to 1, named as scipy's are."""
        if not self.levels:
            return np.ones_like(levels)
        return np.asarray(np.exp(np.interp(levels, self.levels, self.quantiles)))

    def factors(self) -> FloatArray:
        """Measured over predicted seconds, drawn; the same draws for the same error."""
        # Seeded by the error's name, so that predictions made apart, even in two processes, share
        # its draws.
        if not self.levels:
            return np.ones(_DRAWS)
        return self.ppf(_draws(f"{self.drawn_as or self.basis}: {self.of}"))


@lru_cache(maxsize=64)
def _draws(name: str) -> FloatArray:
    """Levels from 0 to 1: the same for the same name."""
    return np.random.default_rng(zlib.crc32(name.encode())).uniform(size=_DRAWS)


def mixed(
    levels: Sequence[float], members: FloatArray, weights: Sequence[float]
) -> tuple[float, ...]:
    """Quantiles at ``levels`` of a mixture of distributions that are known by those."""
    # ``members`` has the shape (distributions, levels). The mixture's distribution function is
    # taken at each quantile of any member, since it bends nowhere else.
    values = np.sort(members.ravel())
    below = np.zeros(len(values))
    for quantiles, weight in zip(members, weights, strict=True):
        below += weight * np.interp(values, quantiles, levels, left=0.0, right=1.0)
    # With its axes exchanged the function is the mixture's quantiles.
    return tuple(np.interp(levels, below / sum(weights), values).tolist())

"""Errors of predictions, from the models' residuals on held-out measurements.

A `ModelError` is one source of error, a `PredictionInterval` the combined effect of such errors on
a prediction. A model error's spread is split-conformal: it consists of quantiles of ln(measured /
predicted) of left-out rows, so that nine in ten of the rows lie inside by construction.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray

CONFIDENCE = 0.9
ENDS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
LEVELS = (0.5, 0.8, CONFIDENCE)
# Each half of an interval, in logarithms, is at least this share of the other, so that no
# prediction lies at an end of its interval, unless a physical limit is nearer.
LEAST_HALF_WIDTH = 1 / 3
# Half-widths of ln(measured / predicted) below and above 0, for each of LEVELS of the rows.
Spread = Sequence[Sequence[float]]
_DRAWS = 4000


def error_summary(errors: Sequence[float] | FloatArray) -> dict[str, Any]:
    """Return n, and median, mean, 95th percentile and worst absolute relative error (fractions)."""
    off = np.abs(errors)
    return {
        "n": len(off),
        "median_ape": float(np.median(off)),
        "mean_ape": float(off.mean()),
        "p95_ape": float(np.percentile(off, 95)),
        "worst_ape": float(off.max()),
    }


class Source(NamedTuple):
    """The interval of a prediction if this source of error were the only one."""

    name: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PredictionInterval:
    """The range, in seconds or bytes, of a prediction with probability ``confidence``.

    ``basis``: the measurements by which the models were judged. ``extrapolated``: properties
    outside the measurements, whose error is from held-out generations; a sentence each.
    ``sources``: the interval by each source of error alone. ``nearest``: the most similar
    measurements. ``samples``: the prediction under each draw of the errors, if it was drawn.
    """

    low: float
    high: float
    confidence: float
    basis: str
    extrapolated: tuple[str, ...]
    sources: tuple[Source, ...] = ()
    nearest: tuple[str, ...] = ()
    samples: FloatArray | None = field(default=None, repr=False, compare=False)

    @property
    def width(self) -> float:
        """High divided by low."""
        return self.high / self.low if self.low else 1.0

    def to_json(self) -> dict[str, Any]:
        """Return the object ``interval_s``, or ``interval_bytes``, of JSON answers."""
        return {
            "low": self.low,
            "high": self.high,
            "confidence": self.confidence,
            "basis": self.basis,
            "extrapolated": list(self.extrapolated),
            "sources": [source._asdict() for source in self.sources],
            "nearest": list(self.nearest),
        }

    def indistinguishable_from(self, other: PredictionInterval, scale: float = 1.0) -> bool:
        """Return whether this prediction cannot be distinguished from ``scale`` times the other.

        An error that both share, of the same GPU or network, is the same draw in both, and cancels.
        """
        assert self.samples is not None
        assert other.samples is not None
        low, high = np.quantile(scale * other.samples - self.samples, ENDS)
        rounding = 1e-9 * abs(self.high)  # the rounding difference of equal predictions
        return bool(low <= rounding and high >= -rounding)


@dataclass(frozen=True, slots=True)
class ModelError:
    """An error: the half-widths at LEVELS of ln(measured / predicted) below and above 0.

    No ``spread`` means no error. Between levels it is interpolated linearly; beyond the last
    nothing is drawn. ``subject``: what the error is about, such as a GPU or a network. Errors
    with the same subject and basis are one error; ``seed_key`` replaces the basis for that.
    ``source`` names it in answers.
    """

    basis: str
    spread: Spread = ()
    extrapolated: tuple[str, ...] = ()
    subject: str = ""
    seed_key: str = ""
    source: str = ""
    nearest: tuple[str, ...] = ()

    def around(self, predicted: float) -> PredictionInterval:
        """Return the interval of a prediction in seconds, or bytes."""
        low, high = (self.ppf(np.array(ENDS)) * predicted).tolist()
        sources = (Source(self.source, low, high),) if self.spread else ()
        return PredictionInterval(
            low, high, CONFIDENCE, self.basis, self.extrapolated, sources, self.nearest
        )

    def at_least(self, factor: float) -> ModelError:
        """Return the error without measured values below ``factor`` times the predicted one.

        A physical limit may lie nearer to the prediction than `LEAST_HALF_WIDTH` of the other half.
        """
        if not self.spread or factor <= 0:
            return self
        most = max(-math.log(factor), 0.0)
        below, above = self.spread
        return replace(self, spread=([min(half, most) for half in below], above))

    def ppf(self, levels: FloatArray) -> FloatArray:
        """Return measured over predicted at ``levels`` from 0 to 1, named as in scipy."""
        if not self.spread:
            return np.ones_like(levels)
        below, above = ((0.0, *half) for half in self.spread)
        both = 2 * np.asarray(levels) - 1
        logs = np.interp(both, (0.0, *LEVELS), above) - np.interp(-both, (0.0, *LEVELS), below)
        return np.asarray(np.exp(logs))

    def factors(self) -> FloatArray:
        """Return draws of measured over predicted seconds; the same draws for the same error."""
        # The error's name is the seed, so that separate predictions, even in two processes, share
        # the draws.
        if not self.spread:
            return np.ones(_DRAWS)
        return self.ppf(_draws(f"{self.seed_key or self.basis}: {self.subject}"))


def balanced(predicted: float, low: float, high: float) -> tuple[float, float]:
    """Return the interval with its shorter half extended to `LEAST_HALF_WIDTH` of the other."""
    if not low:
        return low, high
    below, above = predicted / low, high / predicted
    at_most, at_least = predicted * above**-LEAST_HALF_WIDTH, predicted * below**LEAST_HALF_WIDTH
    return min(low, at_most), max(high, at_least)


def normal_spread(deviation: float) -> Spread:
    """Return the spread of normal errors with that standard deviation."""
    half = tuple(deviation * NormalDist().inv_cdf((1 + level) / 2) for level in LEVELS)
    return half, half


@lru_cache(maxsize=64)
def _draws(name: str) -> FloatArray:
    """Return levels from 0 to 1, the same for the same name."""
    return np.random.default_rng(zlib.crc32(name.encode())).uniform(size=_DRAWS)

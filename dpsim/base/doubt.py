"""How far a prediction may be off, by what models left of held-out measurements.

A `Doubt` is one source of error, a `PredictionInterval` what doubts make of a prediction. A doubt's
spread is a split-conformal one: it holds quantiles of ln(measured / predicted) of left-out rows, so
that nine in ten of the rows lie inside by construction.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray

CONFIDENCE = 0.9
ENDS = ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2)
LEVELS = (0.5, 0.8, CONFIDENCE)
# An arm of an interval, of logarithms, has at least this much of the other, so that no prediction
# lies at an end of its interval.
LEAST_ARM = 1 / 3
# How far ln(measured / predicted) is below 0 and above, for each of LEVELS of the rows.
Spread = Sequence[Sequence[float]]
_DRAWS = 4000


class Source(NamedTuple):
    """The interval of a prediction if this source of error were the only one."""

    name: str
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class PredictionInterval:
    """Seconds, or bytes, between which a prediction lies with a probability of ``confidence``.

    ``basis``: the measurements by which the models were judged. ``extrapolated``: what is unlike
    all of them, for which whole generations were left out; a sentence each. ``sources``: what each
    source of error makes of it. ``nearest``: the measurements that are most like it. ``drawn``: the
    prediction under each draw of the errors, where it was drawn.
    """

    low: float
    high: float
    confidence: float
    basis: str
    extrapolated: tuple[str, ...]
    sources: tuple[Source, ...] = ()
    nearest: tuple[str, ...] = ()
    drawn: FloatArray | None = field(default=None, repr=False, compare=False)

    @property
    def width(self) -> float:
        """High over low."""
        return self.high / self.low if self.low else 1.0

    def to_json(self) -> dict[str, Any]:
        """The object ``interval_s``, or ``interval_bytes``, of JSON answers."""
        return {
            "low": self.low,
            "high": self.high,
            "confidence": self.confidence,
            "basis": self.basis,
            "extrapolated": list(self.extrapolated),
            "sources": [source._asdict() for source in self.sources],
            "nearest": list(self.nearest),
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
    """What is known of an error: how far below and above LEVELS of ln(measured / predicted) reach.

    No ``spread``, no error. Between levels it is interpolated by straight lines; beyond the last
    nothing is drawn. ``of``: whose error it is, such as a GPU's or a network's. Doubts of the same
    are one error, by ``drawn_as`` also those of another basis. ``source`` names it in answers.
    """

    basis: str
    spread: Spread = ()
    extrapolated: tuple[str, ...] = ()
    of: str = ""
    drawn_as: str = ""
    source: str = ""
    nearest: tuple[str, ...] = ()

    def around(self, predicted: float) -> PredictionInterval:
        """The interval of what is predicted to take so many seconds, or bytes."""
        low, high = (self.ppf(np.array(ENDS)) * predicted).tolist()
        sources = (Source(self.source, low, high),) if self.spread else ()
        return PredictionInterval(
            low, high, CONFIDENCE, self.basis, self.extrapolated, sources, self.nearest
        )

    def ppf(self, levels: FloatArray) -> FloatArray:
        """Measured over predicted at ``levels`` from 0 to 1, named as scipy's are."""
        if not self.spread:
            return np.ones_like(levels)
        below, above = ((0.0, *arm) for arm in self.spread)
        both = 2 * np.asarray(levels) - 1
        logs = np.interp(both, (0.0, *LEVELS), above) - np.interp(-both, (0.0, *LEVELS), below)
        return np.asarray(np.exp(logs))

    def factors(self) -> FloatArray:
        """Measured over predicted seconds, drawn; the same draws for the same error."""
        # Seeded by the error's name, so that predictions made apart, even in two processes, share
        # its draws.
        if not self.spread:
            return np.ones(_DRAWS)
        return self.ppf(_draws(f"{self.drawn_as or self.basis}: {self.of}"))


def balanced(predicted: float, low: float, high: float) -> tuple[float, float]:
    """The interval, its shorter arm as long as `LEAST_ARM` of the other."""
    if not low:
        return low, high
    below, above = predicted / low, high / predicted
    return min(low, predicted * above**-LEAST_ARM), max(high, predicted * below**LEAST_ARM)


def normal_spread(deviation: float) -> Spread:
    """The spread of errors that are normal with that standard deviation."""
    arm = tuple(deviation * NormalDist().inv_cdf((1 + level) / 2) for level in LEVELS)
    return arm, arm


def is_narrower(one: Doubt, other: Doubt) -> bool:
    """Whether one's spread is narrower than the other's, by the last level."""
    return sum(arm[-1] for arm in one.spread) < sum(arm[-1] for arm in other.spread)


@lru_cache(maxsize=64)
def _draws(name: str) -> FloatArray:
    """Levels from 0 to 1: the same for the same name."""
    return np.random.default_rng(zlib.crc32(name.encode())).uniform(size=_DRAWS)

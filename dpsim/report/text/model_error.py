"""The errors of models, as a column of a table and lines below it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dpsim.base.uncertainty import CONFIDENCE, PredictionInterval
from dpsim.base.units import TIME, human

WITHIN = f"{CONFIDENCE:.0%} within"
"""The heading of intervals."""


def within(low: float, high: float) -> str:
    """Return both ends (s), ``"155 to 300 ms"``; the first has a unit only if it differs."""
    first, last = human(low, TIME, 3), human(high, TIME, 3)
    number, unit = first.split()
    return f"{number if last.endswith(f' {unit}') else first} to {last}"


def within_cell(interval: PredictionInterval | None) -> str:
    """Return the cell of an interval; empty if it is unknown."""
    return "" if interval is None else within(interval.low, interval.high)


def extrapolation_notes(intervals: Iterable[PredictionInterval | None]) -> list[str]:
    """Return the extrapolations of the models' errors, each once."""
    intervals_known = (interval for interval in intervals if interval is not None)
    every = dict.fromkeys(each for interval in intervals_known for each in interval.extrapolated)
    return [f"extrapolated: {each}" for each in every]


def trust_notes(interval: PredictionInterval) -> list[str]:
    """Return the basis of a step's interval: the nearest measurements, and extrapolations."""
    nearest = interval.nearest or ("none of the model on such a GPU",)
    return [
        *(f"nearest     {each}" for each in nearest),
        *(f"            {each}" for each in extrapolation_notes([interval])),
    ]


def interval_notes(interval: PredictionInterval, shown: Callable[[float], str]) -> list[str]:
    """Return the interval, its ends formatted by ``shown``, and extrapolations, a line each."""
    ends = f"{shown(interval.low)} to {shown(interval.high)}"
    line = f"{100 * interval.confidence:.0f}% interval {ends} (from held-out measurements)"
    return [line, *(f"            extrapolated: {each}" for each in interval.extrapolated)]

"""Runs to a target with several batches."""

from validate.published.convergence.runs import CURVES, HITS, POINTS, Runs, runs_of

__all__ = [
    "CURVES",
    "HITS",
    "POINTS",
    "Runs",
    "runs_of",
]

"""Runs to a target with several batches."""

from validate.published.convergence.runs import CASES, CURVES, HITS, POINTS, Runs, runs_of

__all__ = [
    "CASES",
    "CURVES",
    "HITS",
    "POINTS",
    "Runs",
    "runs_of",
]

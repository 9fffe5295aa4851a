"""The spread of single steps of measured runs, and their jitter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dpsim.disturbance import STEPS_TO_FIT, fit_jitter, pooled, timed_apart
from dpsim.hardware import RankSpread
from dpsim.studies.calibrate.fit import MeasuredRun


def spread_of(run: MeasuredRun) -> float | None:
    """Return half the 16th to 84th percentile range of single steps, over their median."""
    if not run.steps:
        return None
    low, middle, high = np.quantile(run.steps, [0.16, 0.5, 0.84])
    return float((high - low) / 2 / middle)


def jitter_of(runs: Sequence[MeasuredRun]) -> RankSpread | None:
    """Fit the jitter of runs whose steps were logged one by one, as `dpsim fit-jitter` does.

    None if no run has enough steps for a fit. Whole steps do not distinguish ranks: the jitter is
    the job's, the same for every number of ranks.
    """
    logged = [run for run in runs if len(run.steps) >= STEPS_TO_FIT]
    if not logged:
        return None
    jobs = [timed_apart(np.array(run.steps)[:, None], [0], [0]) for run in logged]
    times, nodes = pooled(Path(), jobs)
    jitter = fit_jitter(times, nodes).jitter.model_dump(mode="json", exclude_none=True)
    ranks = max(run.scenario.cluster.ranks for run in logged)
    return RankSpread(ranks=ranks, pace=1.0, jitter=jitter)

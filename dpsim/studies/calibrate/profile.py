"""Fitted step constants, and the jitter that single steps show, as a calibration profile."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpsim.disturbance import STEPS_TO_FIT, fit_jitter, pooled, timed_apart
from dpsim.hardware import COMPUTE, STEPS, CalibrationProfile, Parameter, RankSpread, Residuals
from dpsim.studies.calibrate.fit import Fitted, MeasuredRun

_FORMULA = "see dpsim.engine.step_constants"


def profile_of(
    found: Fitted, name: str, base: CalibrationProfile | None = None
) -> CalibrationProfile:
    """Return the profile of a cluster; ``base`` is its earlier profile.

    Each constant is in ``step`` and, with the interval of its posterior, in ``step_intervals``; the
    jitter of runs that were logged step by step is in ``spreads``.
    """
    errors = found.seconds / [run.step_time for run in found.runs] - 1
    residuals = Residuals.of(errors, "fitted rows")
    step = found.constants
    intervals = {
        prior.name: Parameter(
            value=getattr(step, prior.name),
            unit=prior.unit,
            low=found.interval(index)[0],
            high=found.interval(index)[1],
        )
        for index, prior in enumerate(found.free)
    }
    known = tuple(run.known for run in found.runs)
    jitter = jitter_of(found.runs)
    spreads = () if jitter is None else (jitter,)
    if base is not None:
        changes: dict[str, Any] = {"step": step, "step_intervals": intervals, "known": known}
        # Ranks timed one by one are more precise than whole steps.
        changes["spreads"] = base.spreads or spreads
        changes |= {"kind": STEPS, "residuals": residuals} if base.kind in (STEPS, COMPUTE) else {}
        return base.model_copy(update=changes)
    return CalibrationProfile(
        name=name,
        kind=STEPS,
        formula=_FORMULA,
        step=step,
        step_intervals=intervals,
        known=known,
        spreads=spreads,
        residuals=residuals,
    )


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

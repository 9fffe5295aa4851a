"""Fitted step constants, and the jitter that single steps show, as a calibration profile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpsim.disturbance import STEPS_TO_FIT, TimedJob, fit_jitter, pooled
from dpsim.hardware import COMPUTE, STEPS, CalibrationProfile, Parameter, RankSpread, Residuals
from dpsim.studies.calibrate.fit import Fitted, MeasuredRun

_FORMULA = "see dpsim.engine.step_constants"


def profile_of(
    found: Fitted, name: str, base: CalibrationProfile | None = None
) -> CalibrationProfile:
    """Return the profile of a cluster; ``base`` is its earlier profile.

    The constants are in ``step``, with their posterior intervals in ``step_intervals``; the jitter
    of runs that were logged step by step is in ``spreads``.
    """
    # Leave out the correction by nearby runs, to show how well the constants describe the cluster.
    residuals = Residuals.of(np.expm1(-found.residuals), "fitted rows")
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
    jitter = jitter_of(found.runs)
    spreads = () if jitter is None else (jitter,)
    if base is not None:
        changes: dict[str, Any] = {"step": step, "step_intervals": intervals, "known": found.known}
        # The base's ranks were timed separately, which is more precise than whole steps.
        changes["spreads"] = base.spreads or spreads
        changes |= {"kind": STEPS, "residuals": residuals} if base.kind in (STEPS, COMPUTE) else {}
        return base.model_copy(update=changes)
    return CalibrationProfile(
        name=name,
        kind=STEPS,
        formula=_FORMULA,
        step=step,
        step_intervals=intervals,
        known=found.known,
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
    """Fit the jitter of runs whose steps were logged one by one.

    None if no run has enough steps. Whole steps do not distinguish ranks, so the jitter is the
    job's, for any number of ranks.
    """
    logged = _logged(runs)
    if not logged:
        return None
    fit = fit_jitter(*pooled([_job(run) for run in logged]))
    jitter = fit.jitter.model_dump(mode="json", exclude_none=True)
    ranks = max(run.scenario.cluster.ranks for run in logged)
    return RankSpread(ranks=ranks, pace=1.0, jitter=jitter)


def disturbance_of(
    runs: Sequence[MeasuredRun],
) -> tuple[dict[str, Any], list[dict[str, float]]] | None:
    """Fit a scenario's ``disturbance`` to single steps, with measured and drawn quantiles.

    If ranks were timed separately, the runs with most ranks count, and slow ranks are found. None
    if no run has enough steps.
    """
    timed_ranks = [run.by_rank for run in runs if run.by_rank is not None]
    jobs = [_job(run) for run in _logged(runs)]
    if timed_ranks:
        first = max(timed_ranks, key=lambda job: len(job.ranks))
        placement = (first.ranks, first.nodes)
        jobs = [job for job in timed_ranks if (job.ranks, job.nodes) == placement]
    if not jobs:
        return None
    times, nodes = pooled(jobs)
    fit = fit_jitter(times, nodes)
    return fit.block(jobs[0].ranks), fit.quantiles(times, nodes)


def _logged(runs: Sequence[MeasuredRun]) -> list[MeasuredRun]:
    """Return the runs with enough single steps for a fit."""
    return [run for run in runs if len(run.steps) >= STEPS_TO_FIT]


def _job(run: MeasuredRun) -> TimedJob:
    """Return a run's whole steps as if they were one rank's."""
    return TimedJob(np.array(run.steps)[:, None], [0], [0])

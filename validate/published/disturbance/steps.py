"""Drawn beside measured step times: quantiles over the mean step, of jobs the fit has not seen.

Two tables: GPT-2 on 8 H100 (KellerJordan/modded-nanogpt, five runs), and two jobs with stragglers
(ByteDance-Seed/StragglerAnalysis, OSDI 2025). A job is predicted from the others of its own table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.disturbance import fit_jitter
from validate.published.tables import Columns, packaged_table

QUANTILES = (0.5, 0.9, 0.99)
_DRAWN = 200_000
_TABLES = {"nanogpt_steps.csv": "step_ms", "straggler_jobs.csv": "step_time_s"}


@dataclass(frozen=True, slots=True)
class JobError:
    """Errors of `QUANTILES` of one job, as fractions, and of ``slowdown`` where it is known.

    That is the mean step over the one without stragglers, predicted by the other jobs' mean.
    """

    job: str
    quantiles: tuple[float, ...]
    slowdown: float | None = None


def left_out_jobs() -> list[JobError]:
    """Each job, predicted by a fit to the others of its table."""
    rows = []
    for table in _TABLES:
        jobs, slowed = _jobs(table), _slowdowns(table)
        for job, times in jobs.items():
            # Over their medians: jobs differ in speed, and jitter is what is left of it.
            others = [each / np.median(each) for name, each in jobs.items() if name != job]
            error = None
            if slowed:
                known = [value for name, value in slowed.items() if name != job]
                error = float(np.mean(known)) / slowed[job] - 1
            rows.append(JobError(job, _errors(np.concatenate(others), times), error))
    return rows


def second_halves() -> list[JobError]:
    """The second half of each job's steps, predicted by a fit to the first."""
    return [
        JobError(job, _errors(times[: len(times) // 2], times[len(times) // 2 :]))
        for table in _TABLES
        for job, times in _jobs(table).items()
    ]


def _errors(known: FloatArray, times: FloatArray) -> tuple[float, ...]:
    # (steps, ranks): the table has one time a step, as if one rank had taken it.
    fitted = fit_jitter(known[:, None], [0]).jitter
    drawn = fitted.factors(1, _DRAWN, seed=0)[:, 0]
    predicted = np.quantile(drawn / drawn.mean(), QUANTILES)
    measured = np.quantile(times / times.mean(), QUANTILES)
    return tuple((predicted / measured - 1).tolist())


def _table(name: str) -> Columns:
    return packaged_table(name, ("job", _TABLES[name]))


def _jobs(name: str) -> Mapping[str, FloatArray]:
    """Step times of each job of a table, in order."""
    rows = _table(name)
    owners, times = np.asarray(rows.text("job")), np.asarray(rows.numbers(_TABLES[name]))
    return {str(job): times[owners == job] for job in dict.fromkeys(owners.tolist())}


def _slowdowns(name: str) -> dict[str, float]:
    """The mean step over that without stragglers, of jobs whose table has it."""
    rows = _table(name)
    if "mean_without_stragglers_s" not in rows.columns:
        return {}
    owners = np.asarray(rows.text("job"))
    without = np.asarray(rows.numbers("mean_without_stragglers_s"))
    jobs = _jobs(name)
    return {job: float(times.mean() / without[owners == job][0]) for job, times in jobs.items()}

"""Predicted and measured step times: quantiles over the mean step of held-out jobs.

Two tables: GPT-2 on 8 H100 (KellerJordan/modded-nanogpt, five runs), and two jobs with stragglers
(ByteDance-Seed/StragglerAnalysis, OSDI 2025). A job is predicted from the other jobs of its own
table that read their data the same way: a stall is the load of a file, which is used up in a number
of steps that depends on the batch, and some loaders have no stalls. Without such a job, all other
jobs are used. Of 22 more runs of the first table only quantiles are known.

A slow-down is predicted by its cause, as the mean over a fleet of 3,079 jobs (Lin et al.,
"Understanding stragglers in large model training using what-if analysis", OSDI 2025).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from packaged_columns import Columns, packaged_table

from dpsim.base.arrays import FloatArray
from dpsim.disturbance import fit_jitter

QUANTILES = (0.5, 0.9, 0.99)
_DRAWN = 200_000
_TABLES = {"nanogpt_steps.csv": "step_ms", "straggler_jobs.csv": "step_time_s"}
_LOGS = "nanogpt_logs.csv"
# The mean slow-down of jobs whose cause contains the word, and of all jobs with stragglers.
_FLEET = {"worker": 3.04, "sequence": 1.34}
_FLEET_MEAN = 1.28
_FAST = 0.05  # quantile of a job's steps taken as the step without stragglers


@dataclass(frozen=True, slots=True)
class JobError:
    """The errors of `QUANTILES` of one job, as fractions, and of ``slowdown`` where it is known.

    The slow-down is the mean step over the step without stragglers. ``slowdown`` is the error of
    the fleet's mean, ``by_others`` that of the other jobs' mean, and ``by_own_steps`` that of the
    mean of the job's own whole steps over their fastest twentieth.
    """

    job: str
    quantiles: tuple[float, ...]
    slowdown: float | None = None
    by_others: float | None = None
    by_own_steps: float | None = None


@dataclass(frozen=True, slots=True)
class LogError:
    """The errors of a log's 90th and 99th percentile over its median, as fractions."""

    log: str
    ninety: float
    ninety_nine: float


def left_out_jobs() -> list[JobError]:
    """Predict each job by a fit to the other jobs of its table."""
    rows = []
    batches = _batches()
    for table in _TABLES:
        jobs, slowed = _jobs(table), _slowdowns(table)
        for job, times in jobs.items():
            others = [name for name in jobs if name != job]
            # Without logs it is unknown how a table's jobs read their data, so all others are used.
            alike = [name for name in others if name in batches and batches[name] == batches[job]]
            known = _pooled([jobs[name] for name in alike or others])
            errors = _errors(known, times)
            if not slowed:
                rows.append(JobError(job, errors))
                continue
            of_fleet = _by_cause(table, job)
            of_others = float(np.mean([slowed[name] for name in others]))
            own = float(times.mean() / np.quantile(times, _FAST))
            by_each = (predicted / slowed[job] - 1 for predicted in (of_fleet, of_others, own))
            rows.append(JobError(job, errors, *by_each))
    return rows


def other_logs() -> list[LogError]:
    """Predict held-out runs by the jobs that read their data the same way."""
    jobs, batches = _jobs("nanogpt_steps.csv"), _batches()
    read_alike: dict[str, list[FloatArray]] = {}
    for job, batch in batches.items():
        read_alike.setdefault(batch, []).append(jobs[job])
    known = {batch: _drawn(_pooled(times)) for batch, times in read_alike.items()}
    columns = ("log", "batch", "p90_over_p50", "p99_over_p50")
    rows = packaged_table(_LOGS, columns)
    # The part after the last underscore names the run; one run is in the table twice.
    seen = {name.rpartition("_")[2] for name in _named_logs().values()}
    found = []
    for log, batch, *measured in zip(*map(rows.text, columns), strict=True):
        name = str(log).rpartition("_")[2]
        if batch in known and name not in seen:
            seen.add(name)
            median, *predicted = np.quantile(known[batch], QUANTILES)
            # The table has quantiles over the median but no times.
            over_median = np.array(predicted) / median
            ninety, ninety_nine = over_median / np.array(measured, dtype=float) - 1
            found.append(LogError(str(log), float(ninety), float(ninety_nine)))
    return found


def _named_logs() -> dict[str, str]:
    """Return the log of each job whose steps are known: the first that begins with its name."""
    logs = packaged_table(_LOGS, ("log",)).text("log").tolist()
    jobs = _jobs("nanogpt_steps.csv")
    return {job: next(log for log in logs if log.startswith(f"{job}_")) for job in jobs}


def _batches() -> dict[str, str]:
    """Return how each of those jobs reads its data: samples per step, as its program states."""
    rows = packaged_table(_LOGS, ("log", "batch"))
    batch_of = dict(zip(rows.text("log").tolist(), rows.text("batch").tolist(), strict=True))
    return {job: batch_of[log] for job, log in _named_logs().items()}


def _pooled(jobs: Sequence[FloatArray]) -> FloatArray:
    """Return all steps over their job's median: jobs differ in speed, and the rest is jitter."""
    return np.concatenate([times / np.median(times) for times in jobs])


def second_halves() -> list[JobError]:
    """Predict the second half of each job's steps by a fit to the first half."""
    return [
        JobError(job, _errors(times[: len(times) // 2], times[len(times) // 2 :]))
        for table in _TABLES
        for job, times in _jobs(table).items()
    ]


def _errors(known: FloatArray, times: FloatArray) -> tuple[float, ...]:
    drawn = _drawn(known)
    predicted = np.quantile(drawn / drawn.mean(), QUANTILES)
    measured = np.quantile(times / times.mean(), QUANTILES)
    return tuple((predicted / measured - 1).tolist())


def _drawn(known: FloatArray) -> FloatArray:
    """Return step-time factors drawn from the jitter fitted to the known steps."""
    # (steps, ranks): the table has one time per step, treated as one rank's.
    fitted = fit_jitter(known[:, None], [0]).jitter
    return fitted.factors(1, _DRAWN, seed=0)[:, 0]


def _by_cause(table: str, job: str) -> float:
    """Return the fleet's mean slow-down for the cause of this job's stragglers."""
    rows = packaged_table(table, ("job", "cause"))
    causes = dict(zip(rows.text("job").tolist(), rows.text("cause").tolist(), strict=True))
    return next((mean for word, mean in _FLEET.items() if word in causes[job]), _FLEET_MEAN)


def _table(name: str) -> Columns:
    return packaged_table(name, ("job", _TABLES[name]))


def _jobs(name: str) -> Mapping[str, FloatArray]:
    """Return the step times of each job of a table, in order."""
    rows = _table(name)
    owners, times = np.asarray(rows.text("job")), np.asarray(rows.numbers(_TABLES[name]))
    return {str(job): times[owners == job] for job in dict.fromkeys(owners.tolist())}


def _slowdowns(name: str) -> dict[str, float]:
    """Return each job's mean step over the step without stragglers; empty if the table lacks it."""
    rows = _table(name)
    if "mean_without_stragglers_s" not in rows.columns:
        return {}
    owners = np.asarray(rows.text("job"))
    without = np.asarray(rows.numbers("mean_without_stragglers_s"))
    jobs = _jobs(name)
    return {job: float(times.mean() / without[owners == job][0]) for job, times in jobs.items()}

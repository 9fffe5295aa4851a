"""Fit step constants of a cluster to measured steps, and propose steps to measure."""

from dpsim.studies.calibrate.answer import Calibration, calibrate
from dpsim.studies.calibrate.fit import Fitted, MeasuredRun, exposed_seconds, fit_constants
from dpsim.studies.calibrate.next_runs import Proposed, measure_next, plan
from dpsim.studies.calibrate.profile import profile_of
from dpsim.studies.calibrate.rows import LOG, TRACE, Readers, measured_runs, own_run, runs_of_table

__all__ = [
    "LOG",
    "TRACE",
    "Calibration",
    "Fitted",
    "MeasuredRun",
    "Proposed",
    "Readers",
    "calibrate",
    "exposed_seconds",
    "fit_constants",
    "measure_next",
    "measured_runs",
    "own_run",
    "plan",
    "profile_of",
    "runs_of_table",
]

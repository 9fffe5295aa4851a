"""Step constants of a cluster from measured steps, and which steps to measure.

It knows the engine, and nothing of tables of published steps.
"""

from dpsim.studies.calibrate.fit import Fitted, MeasuredRun, fitted
from dpsim.studies.calibrate.next_runs import Proposed, measure_next, plan
from dpsim.studies.calibrate.profile import profile_of
from dpsim.studies.calibrate.rows import measured_runs

__all__ = [
    "Fitted",
    "MeasuredRun",
    "Proposed",
    "fitted",
    "measure_next",
    "measured_runs",
    "plan",
    "profile_of",
]

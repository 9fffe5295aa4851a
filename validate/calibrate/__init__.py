"""Fits a transport and a machine's layer times on measurements, and states the errors.

Some of the measured collectives are fitted on, the others are held out. `measure` and
`measure_messages` need torch and the testbed, and are imported on demand; all else reads records
and run files.
"""

from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand
from validate.calibrate.cases import CollectiveCase, case_of
from validate.calibrate.combined import fit_profile
from validate.calibrate.compute import measured_models, step_errors
from validate.calibrate.copies import copies_of, fit_copies
from validate.calibrate.fit import MOST_PREDICTIONS
from validate.calibrate.plan import full_plan, own_plan
from validate.calibrate.predict import predicted_s
from validate.calibrate.profile import LEAST_CASES, fit_collectives
from validate.calibrate.sources import Measurements, parse_testbed, read_measurements

if TYPE_CHECKING:
    from validate.calibrate.measurement import measure, measure_messages
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "LEAST_CASES",
    "MOST_PREDICTIONS",
    "CollectiveCase",
    "Measurements",
    "case_of",
    "copies_of",
    "fit_collectives",
    "fit_copies",
    "fit_profile",
    "full_plan",
    "measure",
    "measure_messages",
    "measured_models",
    "own_plan",
    "parse_testbed",
    "predicted_s",
    "read_measurements",
    "step_errors",
]

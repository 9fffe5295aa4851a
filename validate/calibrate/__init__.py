"""Fits what a transport and a machine's layers take on measurements, and says how far off it is.

Some of the measured collectives are fitted on, the others judge. `validate.calibrate.measure`
measures, and needs torch and the testbed; all else reads records and run files.
"""

from validate.calibrate.cases import CollectiveCase, case_of
from validate.calibrate.combined import combined
from validate.calibrate.fit import MOST_PREDICTIONS
from validate.calibrate.measure import measure, measure_messages
from validate.calibrate.plan import full_plan, own_plan
from validate.calibrate.predict import predicted, predicted_s
from validate.calibrate.profile import LEAST
from validate.calibrate.profile import calibrate as profile_of
from validate.calibrate.sources import Measurements, parse_testbed, read

__all__ = [
    "LEAST",
    "MOST_PREDICTIONS",
    "CollectiveCase",
    "Measurements",
    "case_of",
    "combined",
    "full_plan",
    "measure",
    "measure_messages",
    "own_plan",
    "parse_testbed",
    "predicted",
    "predicted_s",
    "profile_of",
    "read",
]

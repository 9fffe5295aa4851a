"""Calibration: collectives are measured on a testbed, and a transport's parameters fitted on some of them and judged on others.

`validate.calibrate.measure` measures, and needs torch and the testbed; all else reads records.
"""

from validate.calibrate.cases import CollectiveCase, case_of
from validate.calibrate.plan import full_plan, own_plan
from validate.calibrate.predict import predicted, predicted_s
from validate.calibrate.profile import calibrate as profile_of
from validate.calibrate.ranking import Choice, choices, within
from validate.calibrate.sources import parse_testbed, read_records

__all__ = [
    "Choice",
    "CollectiveCase",
    "case_of",
    "choices",
    "full_plan",
    "own_plan",
    "parse_testbed",
    "predicted",
    "predicted_s",
    "profile_of",
    "read_records",
    "within",
]

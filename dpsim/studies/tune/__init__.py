"""Tuning: find the best configuration within limits of memory, budget and accuracy."""

from dpsim.studies.tune.dimension import Dimension, parse_over
from dpsim.studies.tune.evaluator import Evaluation, Evaluator, Refused
from dpsim.studies.tune.limits import Limits
from dpsim.studies.tune.objective import OBJECTIVES, Objective
from dpsim.studies.tune.space import Choice, Space, default_values
from dpsim.studies.tune.tune import tune
from dpsim.studies.tune.tuning import Reason, Tuning

__all__ = [
    "OBJECTIVES",
    "Choice",
    "Dimension",
    "Evaluation",
    "Evaluator",
    "Limits",
    "Objective",
    "Reason",
    "Refused",
    "Space",
    "Tuning",
    "default_values",
    "parse_over",
    "tune",
]

"""What to choose: configurations of a scenario searched for the best one, within what memory, budget and accuracy allow."""

from dpsim.tune.accuracy import accuracy_penalty
from dpsim.tune.dimension import Dimension, parse_over
from dpsim.tune.evaluator import Evaluation, Evaluator, Refused
from dpsim.tune.front import pareto_front
from dpsim.tune.limits import Limits
from dpsim.tune.objective import OBJECTIVES, Objective
from dpsim.tune.scenario_text import scenario_text
from dpsim.tune.space import Choice, Space, default_values
from dpsim.tune.tune import tune
from dpsim.tune.tuning import Tuning

__all__ = [
    "OBJECTIVES",
    "Choice",
    "Dimension",
    "Evaluation",
    "Evaluator",
    "Limits",
    "Objective",
    "Refused",
    "Space",
    "Tuning",
    "accuracy_penalty",
    "default_values",
    "pareto_front",
    "parse_over",
    "scenario_text",
    "tune",
]

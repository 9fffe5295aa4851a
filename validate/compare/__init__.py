"""What runs on real ranks say of predictions: errors, choices, the worst cases and their causes.

    comparison = Comparison(records_of(["runs.json.gz"]))              # from validate.records
    comparison.groups["steps"].mean_ape

Records that calibration was fitted on, and those of runs that failed, count in no error. Knows
records, and calibration where predictions are made anew.
"""

from validate.compare.again import predict_again
from validate.compare.causes import Cause, cause
from validate.compare.comparison import NEAR, Comparison
from validate.compare.figure import comparison_figure, page
from validate.compare.ranking import Choice, choices, within
from validate.compare.scores import Score, counted, score

__all__ = [
    "NEAR",
    "Cause",
    "Choice",
    "Comparison",
    "Score",
    "cause",
    "choices",
    "comparison_figure",
    "counted",
    "page",
    "predict_again",
    "score",
    "within",
]

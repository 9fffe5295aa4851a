"""Comparison of runs on real ranks with predictions: errors, choices, worst cases, causes.

    comparison = Comparison(records_of(["runs.json.gz"]))              # from validate.records
    comparison.groups["steps"].mean_ape

Records that calibration was fitted on, and those of failed runs, count in no error. Depends on
records, and on calibration to predict again.
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

"""Comparison of runs on real ranks with predictions: errors, choices, worst cases, causes.

    comparison = Comparison(records_of(["runs.json.gz"]))              # from validate.records
    comparison.groups["steps"].mean_ape

Records that calibration was fitted on, and those of failed runs, count in no error. Depends on
records, and on calibration to predict again.
"""

__all__: list[str] = []

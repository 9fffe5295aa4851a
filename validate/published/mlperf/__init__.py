"""Submissions to MLPerf Training."""

from validate.published.mlperf.scenarios import IDENTITY, REQUIRED, read
from validate.published.tables import StepTable, smallest_run

STEP_TABLE = StepTable(
    REQUIRED,
    IDENTITY,
    lambda rows: read,
    smallest_run,
    fitted="mlperf_training.csv",
    group=lambda row: f"mlperf {row.text('submitter')}",
)

__all__ = ["STEP_TABLE"]

"""The historic ImageNet records and MLPerf results."""

from validate.published.imagenet.scenarios import (
    IDENTITY,
    REQUIRED,
    SETTINGS,
    Plan,
    read,
    read_record,
)
from validate.published.tables import StepTable

TABLE = "imagenet_records.csv"
STEP_TABLE = StepTable(REQUIRED, IDENTITY, lambda rows: read)

__all__ = ["SETTINGS", "STEP_TABLE", "TABLE", "Plan", "read", "read_record"]

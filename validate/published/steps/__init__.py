"""Training steps on one GPU to some hundred, by several publishers."""

from validate.published.steps.scenarios import IDENTITY, REQUIRED, read
from validate.published.tables import StepTable, smallest_run

STEP_TABLE = StepTable(
    REQUIRED,
    IDENTITY,
    lambda rows: read,
    smallest_run,
    fitted="steps_2.csv",
    group=lambda row: f"steps {row.text('publisher')}",
)

__all__ = ["STEP_TABLE"]

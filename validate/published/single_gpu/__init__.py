"""Step times of one GPU."""

from validate.published.single_gpu.scenarios import IDENTITY, REQUIRED, read
from validate.published.tables import StepTable

STEP_TABLE = StepTable(REQUIRED, IDENTITY, lambda rows: read)

__all__ = ["STEP_TABLE"]

"""Step times of small clusters (AdaptDL)."""

from validate.published.adaptdl.scenarios import IDENTITY, REQUIRED, reader
from validate.published.tables import StepTable

STEP_TABLE = StepTable(REQUIRED, IDENTITY, reader)

__all__ = ["STEP_TABLE"]

"""Step times of small clusters (AdaptDL)."""

from validate.published.adaptdl.scenarios import IDENTITY, REQUIRED, reader
from validate.published.tables import StepTable

# Its steps on one GPU are also rows of the one-GPU table.
_SOURCE = "single-gpu github siasosp23/artifacts@aaf7a0d"
STEP_TABLE = StepTable(
    REQUIRED, IDENTITY, reader, plans=True, fitted="adaptdl_steptime.csv", group=lambda row: _SOURCE
)

__all__ = ["STEP_TABLE"]

"""Data-parallel training on one GPU to some hundred."""

from validate.published.scaling.scenarios import IDENTITY, REQUIRED, SETTINGS, read
from validate.published.tables import StepTable

STEP_TABLE = StepTable(REQUIRED, IDENTITY, lambda rows: read, plans=True)

__all__ = ["IDENTITY", "REQUIRED", "SETTINGS", "STEP_TABLE", "read"]

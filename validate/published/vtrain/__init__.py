"""Iteration times of GPT training inside a node (vTrain)."""

from validate.published.tables import StepTable
from validate.published.vtrain.scenarios import CONFIGURATION, REQUIRED, read

STEP_TABLE = StepTable(REQUIRED, CONFIGURATION, lambda rows: read, plans=True)

__all__ = ["STEP_TABLE"]

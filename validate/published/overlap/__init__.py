"""Overlap policies, parameter servers and gossip."""

from validate.published.overlap.ranking import ranked
from validate.published.overlap.scenarios import reader
from validate.published.scaling import IDENTITY, REQUIRED
from validate.published.tables import StepTable

STEP_TABLE = StepTable(REQUIRED, IDENTITY, reader, beside=ranked)

__all__ = ["STEP_TABLE"]

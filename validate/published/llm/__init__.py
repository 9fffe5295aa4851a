"""Training steps of language models by DDP, FSDP, HSDP and ZeRO, as published."""

from validate.published.llm.constants import (
    REFERENCE_KERNELS,
    Constants,
    fixed_constants,
    members_of,
)
from validate.published.llm.left_out import group_of, shipped_without
from validate.published.llm.rows import IDENTITY, REQUIRED, SETTINGS, TABLE, LlmRow, read_row
from validate.published.llm.scenarios import read, scenario_of
from validate.published.tables import StepTable, smallest_runs

STEP_TABLE = StepTable(REQUIRED, IDENTITY, lambda rows: read, smallest_runs)

__all__ = [
    "REFERENCE_KERNELS",
    "SETTINGS",
    "STEP_TABLE",
    "TABLE",
    "Constants",
    "LlmRow",
    "fixed_constants",
    "group_of",
    "members_of",
    "read_row",
    "scenario_of",
    "shipped_without",
]

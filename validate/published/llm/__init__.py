"""Training steps of language models by DDP, FSDP, HSDP and ZeRO, as published."""

from validate.published.llm.constants import (
    REFERENCE_KERNELS,
    SETTINGS,
    TABLE,
    Constants,
    fixed_constants,
    members_of,
)
from validate.published.llm.left_out import group_of, shipped_without
from validate.published.llm.scenarios import IDENTITY, REQUIRED, is_fused, published, read
from validate.published.tables import StepTable, smallest_runs

STEP_TABLE = StepTable(REQUIRED, IDENTITY, lambda rows: read, smallest_runs)

__all__ = [
    "REFERENCE_KERNELS",
    "SETTINGS",
    "STEP_TABLE",
    "TABLE",
    "Constants",
    "fixed_constants",
    "group_of",
    "is_fused",
    "members_of",
    "published",
    "read",
    "shipped_without",
]

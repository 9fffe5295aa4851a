"""Training steps of language models by DDP, FSDP, HSDP and ZeRO, as published."""

from validate.published.llm.scenarios import (
    IDENTITY,
    REQUIRED,
    group_of,
    published,
    read,
)
from validate.published.tables import StepTable, smallest_runs

TABLE = "llm_fsdp.csv"
STEP_TABLE = StepTable(
    REQUIRED, IDENTITY, lambda rows: read, smallest_runs, fitted=TABLE, group=group_of
)

__all__ = ["STEP_TABLE", "TABLE", "group_of", "published", "read"]

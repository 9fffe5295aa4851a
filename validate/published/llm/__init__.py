"""Training steps of language models by DDP, FSDP, HSDP and ZeRO, as published."""

from validate.published.llm.comparison import (
    TABLE,
    compare,
    fitted_rows,
    group_of,
    shipped_without,
)
from validate.published.llm.fit import Constants, fit
from validate.published.llm.rows import REQUIRED, LlmRow
from validate.published.llm.simulate import job_of, step_of, works_of
from validate.published.llm.work import RowWork

__all__ = [
    "REQUIRED",
    "TABLE",
    "Constants",
    "LlmRow",
    "RowWork",
    "compare",
    "fit",
    "fitted_rows",
    "group_of",
    "job_of",
    "shipped_without",
    "step_of",
    "works_of",
]

"""Training steps of language models by DDP, FSDP, HSDP and ZeRO, as published."""

from validate.published.llm.comparison import (
    TABLE,
    LlmStep,
    compare,
    fitted_rows,
    group_of,
    shipped_without,
)
from validate.published.llm.fit import REFERENCE_KERNELS, Constants, fit
from validate.published.llm.rows import REQUIRED, LlmRow, NotSimulatedError, read_row
from validate.published.llm.scenarios import scenario_of
from validate.published.llm.simulate import job_of, step_of, works_of
from validate.published.llm.work import RowWork, Work

__all__ = [
    "REFERENCE_KERNELS",
    "REQUIRED",
    "TABLE",
    "Constants",
    "LlmRow",
    "LlmStep",
    "NotSimulatedError",
    "RowWork",
    "Work",
    "compare",
    "fit",
    "fitted_rows",
    "group_of",
    "job_of",
    "read_row",
    "scenario_of",
    "shipped_without",
    "step_of",
    "works_of",
]

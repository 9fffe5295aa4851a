"""Published measurements and what dpsim predicts for them."""

from validate.published.nccl.reference import Reference, compare
from validate.published.nccl.table import KINDS
from validate.published.step_reference import TABLES as STEP_TABLES
from validate.published.step_reference import compare_steps
from validate.published.tables.published_step import STEP_KINDS, StepKind
from validate.published.tables.step_scores import StepReference

__all__ = [
    "KINDS",
    "STEP_KINDS",
    "STEP_TABLES",
    "Reference",
    "StepKind",
    "StepReference",
    "compare",
    "compare_steps",
]

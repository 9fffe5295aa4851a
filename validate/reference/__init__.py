"""Published measurements and what dpsim predicts for them."""

from validate.reference.reference import Reference, compare
from validate.reference.step_reference import compare_steps
from validate.reference.step_scores import STEP_KINDS, StepKind, StepReference
from validate.reference.table import KINDS, Kind

__all__ = ["KINDS", "STEP_KINDS", "Kind", "Reference", "StepKind", "StepReference", "compare", "compare_steps"]

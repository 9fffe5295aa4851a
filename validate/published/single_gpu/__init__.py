"""Step times of one GPU."""

from validate.published.single_gpu.scenarios import IDENTITY, REQUIRED, group_of, read
from validate.published.tables import StepTable

STEP_TABLE = StepTable(
    REQUIRED,
    IDENTITY,
    lambda rows: read,
    fitted="single_gpu.csv",
    group=group_of,
)

__all__ = ["STEP_TABLE", "group_of"]

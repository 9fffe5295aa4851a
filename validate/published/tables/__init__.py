"""Tables of published measurements, and errors over their rows."""

from validate.published.tables.answers import constants_of, errors_of, rows_json
from validate.published.tables.block_fit import Block, FitResult, Model, fit_blocks, soft_maximum
from validate.published.tables.columns import (
    Columns,
    TextArray,
    constants_file,
    joined,
    numbers_of,
    occurs,
    packaged_table,
    read_columns,
    source_of,
)
from validate.published.tables.csv_file import LEAST, MOST, Row, read_rows
from validate.published.tables.left_out_errors import doubt_of
from validate.published.tables.model_name import model_named
from validate.published.tables.scenario_of_row import scenario_of_row
from validate.published.tables.step_scores import (
    STEP_KINDS,
    Progress,
    Regime,
    Status,
    StepKind,
    StepReference,
    StepRow,
    by_quality,
    identities,
)

__all__ = [
    "LEAST",
    "MOST",
    "STEP_KINDS",
    "Block",
    "Columns",
    "FitResult",
    "Model",
    "Progress",
    "Regime",
    "Row",
    "Status",
    "StepKind",
    "StepReference",
    "StepRow",
    "TextArray",
    "by_quality",
    "constants_file",
    "constants_of",
    "doubt_of",
    "errors_of",
    "fit_blocks",
    "identities",
    "joined",
    "model_named",
    "numbers_of",
    "occurs",
    "packaged_table",
    "read_columns",
    "read_rows",
    "rows_json",
    "scenario_of_row",
    "soft_maximum",
    "source_of",
]

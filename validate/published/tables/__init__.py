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
    packaged_rows,
    packaged_table,
    read_columns,
    source_of,
)
from validate.published.tables.csv_file import (
    LEAST,
    MOST,
    NotPredictedError,
    Row,
    read_rows,
)
from validate.published.tables.left_out_errors import doubt_of
from validate.published.tables.machines import (
    cards_by_kind,
    cards_in,
    cards_together,
    cluster_of,
    even_placement,
    gpu_in,
)
from validate.published.tables.model_name import model_named
from validate.published.tables.published_step import (
    PublishedStep,
    Read,
    StepTable,
    smallest_run,
    smallest_runs,
)
from validate.published.tables.scenario_of_row import scenario_of_row
from validate.published.tables.step_comparison import compare_table
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
from validate.published.tables.training import (
    known_words,
    model_in,
    optimizer_in,
    precision_in,
    software_in,
)

__all__ = [
    "LEAST",
    "MOST",
    "STEP_KINDS",
    "Block",
    "Columns",
    "FitResult",
    "Model",
    "NotPredictedError",
    "Progress",
    "PublishedStep",
    "Read",
    "Regime",
    "Row",
    "Status",
    "StepKind",
    "StepReference",
    "StepRow",
    "StepTable",
    "TextArray",
    "by_quality",
    "cards_by_kind",
    "cards_in",
    "cards_together",
    "cluster_of",
    "compare_table",
    "constants_file",
    "constants_of",
    "doubt_of",
    "errors_of",
    "even_placement",
    "fit_blocks",
    "gpu_in",
    "identities",
    "joined",
    "known_words",
    "model_in",
    "model_named",
    "numbers_of",
    "occurs",
    "optimizer_in",
    "packaged_rows",
    "packaged_table",
    "precision_in",
    "read_columns",
    "read_rows",
    "rows_json",
    "scenario_of_row",
    "smallest_run",
    "smallest_runs",
    "soft_maximum",
    "software_in",
    "source_of",
]

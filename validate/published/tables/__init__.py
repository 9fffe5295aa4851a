"""Tables of published measurements, and errors over their rows."""

from validate.published.tables.answers import constants_of, errors_of, rows_json
from validate.published.tables.columns import (
    Columns,
    constants_file,
    packaged_rows,
    packaged_table,
    read_columns,
)
from validate.published.tables.csv_file import (
    LEAST,
    MOST,
    NotPredictedError,
    Row,
    gathered,
    read_rows,
)
from validate.published.tables.machines import (
    cards_by_kind,
    cards_in,
    cards_together,
    cluster_of,
    even_placement,
    gpu_in,
)
from validate.published.tables.model_configs import Sizes, config_file
from validate.published.tables.published_step import (
    STEP_KINDS,
    PublishedStep,
    Read,
    Regime,
    Status,
    StepKind,
    StepTable,
    smallest_run,
    smallest_runs,
)
from validate.published.tables.scenario_files import ScenarioFolder, file_name, yaml_text
from validate.published.tables.scenario_of_row import scenario_of_row
from validate.published.tables.step_comparison import compare_table
from validate.published.tables.step_scores import Progress, StepReference, StepRow, by_quality
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
    "Columns",
    "NotPredictedError",
    "Progress",
    "PublishedStep",
    "Read",
    "Regime",
    "Row",
    "ScenarioFolder",
    "Sizes",
    "Status",
    "StepKind",
    "StepReference",
    "StepRow",
    "StepTable",
    "by_quality",
    "cards_by_kind",
    "cards_in",
    "cards_together",
    "cluster_of",
    "compare_table",
    "config_file",
    "constants_file",
    "constants_of",
    "errors_of",
    "even_placement",
    "file_name",
    "gathered",
    "gpu_in",
    "known_words",
    "model_in",
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
    "software_in",
    "yaml_text",
]

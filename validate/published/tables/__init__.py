"""Tables of published measurements, and errors over their rows."""

from validate.published.tables.columns import (
    Columns,
    constants_file,
    packaged_path,
    packaged_rows,
    packaged_table,
)
from validate.published.tables.csv_file import (
    NotPredictedError,
    Row,
    gathered,
    read_rows,
)
from validate.published.tables.known_steps import place_of, planned_rows
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
    published_step,
    smallest_run,
    smallest_runs,
)
from validate.published.tables.scenario_files import (
    ScenarioFolder,
    file_name,
    scenario_of_row,
    yaml_text,
)
from validate.published.tables.step_comparison import compare_table
from validate.published.tables.step_scores import (
    Progress,
    StepReference,
    StepRow,
    constants_of,
    rows_json,
)
from validate.published.tables.training import (
    known_words,
    precision_in,
    software_in,
    stated_step,
    workload_of,
)

__all__ = [
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
    "cards_by_kind",
    "cards_in",
    "cards_together",
    "cluster_of",
    "compare_table",
    "config_file",
    "constants_file",
    "constants_of",
    "even_placement",
    "file_name",
    "gathered",
    "gpu_in",
    "known_words",
    "packaged_path",
    "packaged_rows",
    "packaged_table",
    "place_of",
    "planned_rows",
    "precision_in",
    "published_step",
    "read_rows",
    "rows_json",
    "scenario_of_row",
    "smallest_run",
    "smallest_runs",
    "software_in",
    "stated_step",
    "workload_of",
    "yaml_text",
]

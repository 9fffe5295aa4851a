"""Published step times and dpsim's predictions for them.

`compare_steps` is ``dpsim validate reference`` for these tables. Each row becomes a scenario, which
is simulated as by ``dpsim run``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dpsim.base.errors import DpsimError
from validate.published.step_tables import (
    adaptdl,
    imagenet,
    llm,
    mlperf,
    overlap,
    scaling,
    single_gpu,
    steps,
    vtrain,
)
from validate.published.tables.csv_file import read_rows
from validate.published.tables.published_step import Regime, StepKind, StepTable
from validate.published.tables.step_comparison import compare_table
from validate.published.tables.step_scores import Progress, StepReference

TABLES: Mapping[StepKind, StepTable] = {
    "single-gpu": single_gpu.STEP_TABLE,
    "adaptdl": adaptdl.STEP_TABLE,
    "vtrain": vtrain.STEP_TABLE,
    "scaling": scaling.STEP_TABLE,
    "overlap": overlap.STEP_TABLE,
    "imagenet": imagenet.STEP_TABLE,
    "llm": llm.STEP_TABLE,
    "mlperf": mlperf.STEP_TABLE,
    "steps": steps.STEP_TABLE,
}


def compare_steps(
    path: Path,
    kind: StepKind,
    *,
    regime: Regime = "specification",
    write_scenarios: Path | None = None,
    known: int = 4,
    progress: Progress = lambda what, done, total: None,
) -> StepReference:
    """Predict every row of the table at ``path``.

    A calibrated regime knows ``known`` rows of each series of adaptdl, vtrain and scaling. Raises
    DpsimError, with line and column, for unusable tables, and for a calibrated regime of a table
    that has none.
    """
    table = TABLES[kind]
    if regime == "calibrated" and table.known is None and not table.plans:
        raise DpsimError(f"--regime must be left out for {kind}, but got {regime}")
    rows = read_rows(path, table.required)
    return compare_table(kind, table, rows, regime, write_scenarios, known, progress)

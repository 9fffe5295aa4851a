"""What predictions of tables of step times leave of groups that were left out of the fits.

Writes ``validate/published/tables/residuals.json``: quantiles of ln(measured / predicted) over the
rows that count, in which each group counts as much as another. Run ``python -m
tools.refits.table_residuals`` after a refit of any of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tools.refits.residual_quantiles import QUANTILES, residual_quantiles
from validate.published import StepKind, compare_steps

FILE = Path(str(files("validate.published.tables"))) / "residuals.json"


class Table(NamedTuple):
    """A file, the column whose groups count alike, and what the fits of each row did not see."""

    file: str
    column: str
    left_out: str


TABLES: Mapping[StepKind, Table] = {
    "single-gpu": Table("single_gpu.csv", "model", "models, each left out"),
    "adaptdl": Table("adaptdl_steptime.csv", "case_id", "cases, a model's large rows left out"),
    "vtrain": Table("vtrain_steptime.csv", "hidden_size", "widths, each pair of rows left out"),
    "scaling": Table("scaling.csv", "case_id", "cases, each left out"),
    "overlap": Table("scaling.csv", "case_id", "cases, each model left out of its corrections"),
    "imagenet": Table("imagenet_records.csv", "record_id", "records, each left out"),
}


def of_table(kind: StepKind) -> dict[str, Any]:
    """The entry of one kind of table."""
    table = TABLES[kind]
    with as_file(files("validate.published") / "data" / table.file) as path:
        rows = [row for row in compare_steps(path, kind).counted if row.predicted and row.measured]
    # Rows without a measurement were left out above; the zeros are for the type checker alone.
    residual = np.log([(row.measured or 0.0) / (row.predicted or 0.0) for row in rows])
    names = [str(row.identity[table.column]) for row in rows]
    return {
        "basis": f"{len(set(names))} {table.left_out}",
        "group_left_out": residual_quantiles(np.asarray(residual), names),
    }


def write() -> None:
    """Write the file."""
    content = {"quantiles": list(QUANTILES), "tables": {kind: of_table(kind) for kind in TABLES}}
    FILE.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()

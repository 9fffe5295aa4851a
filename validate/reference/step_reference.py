"""Published step times and what dpsim predicts for them: `compare_steps` is ``dpsim validate reference`` for these tables.

Where the table and the rows of the fit overlap (the same configuration, whatever was measured), the row's whole group is left
out of the fit that predicts it. Without a table to fit on, the constants of the package serve, which the public tables were fitted
to; their rows are recognised and treated in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from dpsim.errors import DpsimError
from validate.reference import (
    adaptdl_reference,
    imagenet_reference,
    overlap_reference,
    scaling_reference,
    single_gpu_reference,
    vtrain_reference,
)
from validate.reference.columns import Columns, joined, read_columns
from validate.reference.step_scores import Progress, StepKind, StepReference

Comparison = Callable[[Columns, Columns | None, Progress], StepReference]
COMPARISONS: Mapping[StepKind, tuple[Comparison, Sequence[str]]] = {
    "single-gpu": (single_gpu_reference.compare, single_gpu_reference.REQUIRED),
    "adaptdl": (adaptdl_reference.compare, adaptdl_reference.REQUIRED),
    "vtrain": (vtrain_reference.compare, vtrain_reference.REQUIRED),
    "scaling": (scaling_reference.compare, scaling_reference.REQUIRED),
    "overlap": (overlap_reference.compare, scaling_reference.REQUIRED),
    "imagenet": (imagenet_reference.compare, imagenet_reference.REQUIRED),
}


def compare_steps(
    path: Path, kind: StepKind, *, fit_on: Sequence[Path] = (), progress: Progress = lambda what, done, total: None
) -> StepReference:
    """Predict every row of the table at ``path``. Raises DpsimError, with line and column, for tables that cannot be used."""
    comparison, required = COMPARISONS[kind]
    tested = read_columns(path, required)
    for other in fit_on:
        if not other.is_file():
            raise DpsimError(f"{other}: must be a CSV file to fit on, but there is none of this name")
    known = joined([read_columns(other, required) for other in fit_on]) if fit_on else None
    return comparison(tested, known, progress)

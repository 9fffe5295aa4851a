"""Published step times and what dpsim predicts for them.

`compare_steps` is ``dpsim validate reference`` for these tables.

Where the table and the rows of the fit overlap (the same configuration, whatever was measured), the
row's whole group is left out of the fit that predicts it. Without a table to fit on, the constants
of the package serve, which the public tables were fitted to; their rows are recognised and treated
in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from dpsim.base.errors import DpsimError
from validate.published import (
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
from validate.published.tables import (
    Columns,
    Progress,
    Regime,
    StepKind,
    StepReference,
    StepTable,
    compare_table,
    doubt_of,
    joined,
    read_columns,
    read_rows,
)

TABLES: Mapping[StepKind, StepTable] = {
    "single-gpu": single_gpu.STEP_TABLE,
    "mlperf": mlperf.STEP_TABLE,
    "steps": steps.STEP_TABLE,
}
Comparison = Callable[[Columns, Columns | None, Progress], StepReference]
COMPARISONS: Mapping[StepKind, tuple[Comparison, Sequence[str]]] = {
    "adaptdl": (adaptdl.compare, adaptdl.REQUIRED),
    "vtrain": (vtrain.compare, vtrain.REQUIRED),
    "scaling": (scaling.compare, scaling.REQUIRED),
    "overlap": (overlap.compare, scaling.REQUIRED),
    "imagenet": (imagenet.compare, imagenet.REQUIRED),
    "llm": (llm.compare, llm.REQUIRED),
}

# Tables whose rows may be scaled to a known row of their case.
CALIBRATED: Mapping[StepKind, Callable[..., StepReference]] = {"llm": llm.compare}


def compare_steps(
    path: Path,
    kind: StepKind,
    *,
    regime: Regime = "specification",
    fit_on: Sequence[Path] = (),
    write_scenarios: Path | None = None,
    progress: Progress = lambda what, done, total: None,
) -> StepReference:
    """Predict every row of the table at ``path``.

    Raises DpsimError, with line and column, for tables that cannot be used, and for a calibrated
    regime of a table that has none.
    """
    if kind in TABLES:
        if regime == "calibrated" and TABLES[kind].known is None:
            raise DpsimError(f"--regime must be left out for {kind}, but got {regime}")
        if fit_on:
            raise DpsimError(
                f"--fit-on must be left out for {kind}, whose rows the engine predicts, but got "
                f"{fit_on[0]}"
            )
        rows = read_rows(path, TABLES[kind].required)
        return compare_table(kind, TABLES[kind], rows, regime, write_scenarios, progress)
    if kind not in CALIBRATED and regime != "specification":
        raise DpsimError(f"--regime must be left out for {kind}, but got {regime}")
    comparison, required = COMPARISONS[kind]
    tested = read_columns(path, required)
    for other in fit_on:
        if not other.is_file():
            raise DpsimError(
                f"{other}: must be a CSV file to fit on, but there is none of this name"
            )
    known = joined([read_columns(other, required) for other in fit_on]) if fit_on else None
    if kind in CALIBRATED:
        return CALIBRATED[kind](tested, known, progress, regime)
    return with_doubt(comparison(tested, known, progress))


def with_doubt(result: StepReference) -> StepReference:
    """``result`` with what is known of the errors of such tables, where its rows have none."""
    doubt = doubt_of(result.kind)
    result.every = [replace(row, doubt=doubt) for row in result.every]
    return result

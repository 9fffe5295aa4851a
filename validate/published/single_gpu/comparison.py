"""``dpsim validate reference single-gpu``: step times on one GPU."""

from __future__ import annotations

import numpy as np

from validate.published.single_gpu.model import (
    SingleGpuParameters,
    fit,
    measured_seconds,
    obstacles,
    predict,
)
from validate.published.tables import (
    Columns,
    Progress,
    StepReference,
    StepRow,
    by_quality,
    constants_file,
    identities,
    numbers_of,
    occurs,
    source_of,
)

CONFIGURATION = ("case_id", "gpu", "model", "framework", "precision", "mode", "batch", "seq_len")
REQUIRED = ("gpu", "model", "framework", "precision", "mode", "batch")
TABLE, FITTED = "single_gpu.csv", "single_gpu/fitted.yaml"


def compare(tested: Columns, known: Columns | None, progress: Progress) -> StepReference:
    """Predict each row of ``tested`` from constants fitted on ``known`` (None: shipped).

    Without its model where that was seen.
    """
    result = StepReference("single-gpu")
    source, words = source_of(known, TABLE, REQUIRED)
    # Rows of doubtful quality are predicted, too, but constants never learn from them.
    source = fit_rows(source)
    reasons = obstacles(tested)
    bad = reasons != ""
    cells = zip(
        tested.line[bad],
        tested.text("model")[bad],
        tested.text("gpu")[bad],
        reasons[bad],
        strict=True,
    )
    result.not_predicted += [
        (int(line), f"{reason} ({model}, {gpu})") for line, model, gpu, reason in cells
    ]
    tested = tested.where(~bad)
    models = tested.text("model")
    overlapping = set(models[occurs(tested, source, CONFIGURATION)].tolist())
    if overlapping:
        result.left_out = "each model that was fitted on is left out of the fit that predicts it"

    whole: SingleGpuParameters | None = None
    names = sorted(set(models.tolist()))
    for done, model in enumerate(names, 1):
        rows = tested.where(models == model)
        if model in overlapping:
            without = fit(source.where(source.text("model") != model))
            add(result, rows, without, f"{words}, without this model")
        else:
            # Only where a model needs it: on rows of one's own a fit takes seconds.
            whole = whole or (shipped() if known is None else fit(source))
            add(result, rows, whole, words)
        progress("predicting", done, len(names))
    return result


def fit_rows(rows: Columns) -> Columns:
    """Rows that constants are fitted on: of quality ok, that can be predicted."""
    quality = rows.text("quality")
    return rows.where(((quality == "ok") | (quality == "")) & (obstacles(rows) == ""))


def add(result: StepReference, rows: Columns, parameters: SingleGpuParameters, words: str) -> None:
    """Add the scored rows."""
    quality = rows.text("quality")
    kept = identities(rows, (*CONFIGURATION, "quality"))
    for framework in sorted(set(rows.text("framework").tolist()) - set(parameters.speed)):
        result.note(
            f"framework {framework!r} is in no fitted row: takes the usual host time and speed"
        )
    usual_batch = constants_file("single_gpu/settings.yaml")["batch_unknown"]["value"]
    for line in rows.line[np.isnan(rows.above_zero("batch"))]:
        result.note(f"line {line}: no batch stated, taken as {usual_batch}")
    cells = zip(
        rows.line, kept, predict(rows, parameters), measured_seconds(rows), quality, strict=True
    )
    for line, identity, predicted, measured, good in cells:
        status, reason = by_quality(good)
        groups = tuple(f"{name} {identity[name]}" for name in ("model", "gpu", "mode"))
        times = float(predicted), float(measured)
        row = StepRow(int(line), identity, *times, words, status, groups, reason=reason)
        result.every.append(row)


def shipped() -> SingleGpuParameters:
    """The constants of the package, fitted on all public rows of quality ok."""
    content = constants_file(FITTED)
    common = content["global"]
    return SingleGpuParameters(
        efficiency=numbers_of(content["efficiency"]),
        values=numbers_of(common),
        errors=numbers_of(common, "error"),
        speed=numbers_of(content["speed"]),
        host=numbers_of(content["host"]),
        clock=numbers_of(content["clock"]),
    )

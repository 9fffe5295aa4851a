"""``dpsim validate reference scaling``.

Efficiency of larger configurations, from the smallest of each case.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpsim.base.arrays import BoolArray, FloatArray
from validate.published.scaling.model import (
    Pairs,
    ScalingParameters,
    accumulation_of,
    fit,
    predict,
    stated_step,
    timed,
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

IDENTITY = (
    "case_id", "system", "model", "sync", "gpu", "gpus", "nodes", "intra_link", "network",
    "per_gpu_batch", "grad_accum", "seq_len", "precision", "quality",
)  # fmt: skip
REQUIRED = ("case_id", "system", "model", "gpus", "nodes", "intra_link", "network", "precision")
CONFIGURATION = ("case_id", "model", "precision", "gpus", "nodes")
TABLE = "scaling.csv"
# Fits without a case each would take minutes. Leaving more out than needed is only harder.
FOLDS = 12


def compare(tested: Columns, known: Columns | None, progress: Progress) -> StepReference:
    """Predict every larger configuration of ``tested``.

    Overheads come from ``known`` (None: shipped), without the cases it shares.
    """
    result = StepReference("scaling")
    source, words = source_of(known, TABLE, REQUIRED)
    good = timed(tested)
    result.not_predicted += [
        (int(line), "no number of GPUs, or neither throughput nor step time")
        for line in tested.line[~good]
    ]
    tested = tested.where(good)
    cases = tested.text("case_id")
    shared = sorted(set(cases[occurs(tested, source, CONFIGURATION)].tolist()))
    # One past the last part stands for cases that no fit has seen.
    folds = np.array(
        [shared.index(case) % FOLDS if case in shared else FOLDS for case in cases.tolist()],
        dtype=np.int64,
    )
    if shared:
        result.left_out = (
            f"cases that were fitted on are left out, {FOLDS} parts in turn, "
            "of the fit that predicts them"
        )

    for fold in sorted(set(folds.tolist())):
        rows = tested.where(folds == fold)
        if fold == FOLDS:
            add(result, rows, shipped() if known is None else _fit(source, result), words)
        else:
            hidden = [case for i, case in enumerate(shared) if i % FOLDS == fold]
            others = source.where(~np.isin(source.text("case_id"), hidden))
            add(result, rows, _fit(others, result), f"{words}, without this case")
        progress("predicting", fold + 1, FOLDS + 1)
    return result


def add(result: StepReference, rows: Columns, parameters: ScalingParameters, words: str) -> None:
    """Add the scored rows, and the smallest configuration of each case as calibrated on."""
    if not len(rows):
        return
    predicted, pairs = predict(rows, parameters)
    for system in sorted(set(rows.text("system").tolist()) - set(parameters.software)):
        result.note(
            f"system {system!r} is in no fitted row: takes the median share of what software "
            "cannot hide"
        )
    kept = identities(rows, IDENTITY)
    times = _step_times(rows, pairs, predicted)
    quality = rows.text("quality")
    for i, (row, efficiency, measured) in enumerate(
        zip(pairs.row, predicted, pairs.measured, strict=True)
    ):
        status, reason = by_quality(str(quality[row]), str(quality[pairs.base[i]]))
        groups = (f"system {kept[row]['system']}", f"model {kept[row]['model']}")
        both = (float(efficiency), float(measured))
        result.every.append(
            StepRow(int(rows.line[row]), kept[row], *times[i], words, status, groups, both, reason)
        )
    used = set(pairs.base.tolist())
    alone = set(range(len(rows))) - used - set(pairs.row.tolist())
    result.not_predicted += [
        (int(rows.line[row]), "the only configuration of its case") for row in sorted(alone)
    ]
    _add_bases(result, rows, sorted(used), kept, words)


def _add_bases(
    result: StepReference, rows: Columns, used: list[int], kept: list[dict[str, str]], words: str
) -> None:
    """The smallest configurations: predicted by themselves."""
    step = rows.above_zero("step_time_ms") * 1e-3
    for row in used:
        seconds = _stated(step[row])
        groups = (f"system {kept[row]['system']}",)
        result.every.append(
            StepRow(
                int(rows.line[row]),
                kept[row],
                seconds,
                seconds,
                f"{words}; the smallest of its case",
                "fitted on",
                groups,
                (1, 1),
            )
        )


def _step_times(
    rows: Columns, pairs: Pairs, predicted: FloatArray
) -> list[tuple[float | None, float | None]]:
    """(predicted, measured) step seconds; None where the table states neither time nor batch."""
    seconds = stated_step(rows)
    accumulation, batch = accumulation_of(rows), rows.above_zero("per_gpu_batch")
    out: list[tuple[float | None, float | None]] = []
    for row, base, efficiency in zip(pairs.row, pairs.base, predicted, strict=True):
        # By how much more a GPU computes in a step of the larger one.
        work = accumulation[row] / accumulation[base]
        if not np.isnan(batch[row]) and not np.isnan(batch[base]):
            work *= batch[row] / batch[base]
        guess = seconds[base] * work / efficiency
        out.append((_stated(guess), _stated(seconds[row])))
    return out


def _stated(seconds: float) -> float | None:
    return None if np.isnan(seconds) else float(seconds)


def shipped() -> ScalingParameters:
    """The constants of the package, fitted on all public rows of quality ok."""
    content: Mapping[str, Mapping[str, Mapping[str, float]]] = constants_file("scaling/fitted.yaml")
    return ScalingParameters(
        values=numbers_of(content["global"]),
        errors=numbers_of(content["global"], "error"),
        software=numbers_of(content["software"]),
        input_spread=numbers_of(content["input_spread"]),
    )


def _fit(rows: Columns, result: StepReference) -> ScalingParameters:
    keep: BoolArray = (rows.text("quality") == "ok") | (rows.text("quality") == "")
    rows = rows.where(keep)
    if len(rows):
        return fit(rows)
    result.note("nothing was left to fit on: predicted by the priors alone")
    constants = constants_file("scaling/settings.yaml")
    return ScalingParameters(
        values=numbers_of(constants["global"]),
        errors={},
        software={"": float(constants["system"]["software"]["value"])},
        input_spread=numbers_of(constants["input_spread"]),
    )

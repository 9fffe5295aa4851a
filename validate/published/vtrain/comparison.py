"""``dpsim validate reference vtrain``: iteration times of data-parallel GPT training."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dpsim.base.arrays import BoolArray
from validate.published.tables import (
    Columns,
    Progress,
    StepReference,
    StepRow,
    constants_file,
    identities,
    numbers_of,
    occurs,
    packaged_table,
    source_of,
)
from validate.published.vtrain.model import VtrainParameters, fit, predict, with_kin

CONFIGURATION = (
    "gpus", "global_batch", "micro_batch", "hidden_size", "attention_heads", "layers",
    "sequence_length", "tensor_parallelism", "data_parallelism", "pipeline_parallelism",
)  # fmt: skip
REQUIRED = (*CONFIGURATION, "iteration_time_ms")
TABLE = "vtrain_steptime.csv"
PAIR = ("hidden_size", "layers")


def compare(tested: Columns, known: Columns | None, progress: Progress) -> StepReference:
    """Predict ``tested`` from constants fitted on ``known`` (None: shipped).

    Without a row's (width, layers) pair where seen.
    """
    result = StepReference("vtrain")
    source, words = source_of(known, TABLE, REQUIRED)
    source = source.where(_supported(source))
    good = _supported(tested)
    result.not_predicted += [
        (int(line), "tensor or pipeline parallelism") for line in tested.line[~good]
    ]
    tested = tested.where(good)
    seen = occurs(tested, source, CONFIGURATION)
    pairs = np.array(["x".join(key) for key in tested.keys(PAIR)], dtype=np.str_)
    overlapping = set(pairs[seen].tolist())
    if overlapping:
        result.left_out = (
            "each (hidden_size, layers) pair that was fitted on is left out "
            "of the fit that predicts it"
        )
    source_pairs = np.array(["x".join(key) for key in source.keys(PAIR)], dtype=np.str_)

    whole: VtrainParameters | None = None
    names = sorted(set(pairs.tolist()))
    for done, pair in enumerate(names, 1):
        rows = tested.where(pairs == pair)
        if pair in overlapping:
            others = source.where(source_pairs != pair)
            add(result, rows, _fit(others, result), f"{words}, without this pair")
        else:
            whole = whole or (shipped() if known is None else _fit(source, result))
            add(result, rows, whole, words)
        progress("predicting", done, len(names))
    return result


def add(result: StepReference, rows: Columns, parameters: VtrainParameters, words: str) -> None:
    """Add the scored rows."""
    predicted, measured = predict(rows, parameters), rows.positive("iteration_time_ms") * 1e-3
    for line, identity, p, m in zip(
        rows.line, identities(rows, CONFIGURATION), predicted, measured, strict=True
    ):
        groups = (f"hidden_size {identity['hidden_size']}", f"gpus {identity['gpus']}")
        result.every.append(
            StepRow(int(line), identity, float(p), float(m), words, "counted", groups)
        )


def shipped() -> VtrainParameters:
    """The constants of the package, fitted on all public rows."""
    entries: Mapping[str, Mapping[str, float]] = constants_file("vtrain/fitted.yaml")["parameters"]
    parameters = VtrainParameters(numbers_of(entries), numbers_of(entries, "error"))
    rows = packaged_table(TABLE, REQUIRED)
    return with_kin(parameters, rows.where(_supported(rows)))


def _fit(rows: Columns, result: StepReference) -> VtrainParameters:
    if len(rows):
        return fit(rows)
    result.note("nothing was left to fit on: predicted by the priors alone")
    entries = constants_file("vtrain/settings.yaml")["parameters"]
    return VtrainParameters(numbers_of(entries), numbers_of(entries, "spread"))


def _supported(rows: Columns) -> BoolArray:
    """Rows that use data parallelism alone."""
    return np.asarray(
        (rows.positive("tensor_parallelism") == 1) & (rows.positive("pipeline_parallelism") == 1)
    )

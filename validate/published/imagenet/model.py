"""Compute times of the ImageNet records.

The roofline's, times effects fitted on other records and on single-GPU rows.

A record's seconds of computing are the roofline's times a product of effects: of the family of
chips and the chip in it, the model, the suite (mlperf: software tuned for it; paper; table: one GPU
alone), family and model together, and (batch of a device / reference batch)^ln(slope) for each
suite, since tuned software launches small batches with less overhead. Each effect has the prior 1
times or over its spread (imagenet.yaml), so that one which no other row tells stays near 1.
Communication, jitter and steps to train are the simulator's; nothing is fitted there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from validate.published.imagenet.records import FILE, Plan, PublishedTraining
from validate.published.imagenet.steps import Curve, curve, interpolated
from validate.published.tables import (
    Block,
    Columns,
    Model,
    constants_file,
    fit_blocks,
    packaged_table,
)

EFFECTS = ("family", "chip", "model", "suite", "own", "slope")
_TABLE = ("gpu", "model", "precision", "mode", "batch", "throughput")


@dataclass(frozen=True)
class Effects:
    """Fitted factors on compute times, by effect and member.

    A member that is not there has the factor 1. ``errors`` are standard deviations of their
    logarithms.
    """

    values: Mapping[str, Mapping[str, float]]
    errors: Mapping[str, Mapping[str, float]]

    def seconds(self, one: Curve) -> float:
        """Predicted seconds of a training."""
        return float(_model([one])(self._factors(one.record))[0])

    def factor(self, one: Curve) -> float:
        """What compute times are multiplied by."""
        return float(np.exp(_log_factor(self._factors(one.record), _sizes([one]))[0]))

    def _factors(self, record: PublishedTraining) -> dict[str, FloatArray]:
        names = members(record)
        return {
            effect: np.array([self.values[effect].get(names[effect], 1.0)]) for effect in EFFECTS
        }


def members(record: PublishedTraining) -> dict[str, str]:
    """Which member of each effect a record has."""
    return {
        "family": record.family,
        "chip": record.chip,
        "model": record.model,
        "suite": record.suite,
        "own": f"{record.family} {record.model}",
        "slope": record.suite,
    }


def fit(curves: Sequence[Curve], measured: FloatArray) -> Effects:
    """Effects fitted to records and to the anchors of single_gpu.csv.

    ``measured`` are the records' seconds, of shape (records,).
    """
    constants = constants_file(FILE)
    alone, seconds = anchors()
    every = [*curves, *alone]
    noise = np.repeat(
        [constants["noise"]["record"], constants["noise"]["single_gpu"]], [len(curves), len(alone)]
    )

    blocks, names = [], {}
    for effect in EFFECTS:
        labels = [members(one.record)[effect] for one in every]
        names[effect] = sorted(set(labels))
        rows = np.array([names[effect].index(label) for label in labels], dtype=np.int64)
        ones = np.ones(len(names[effect]))
        blocks.append(Block(effect, ones, constants["spread"][effect] * ones, rows))
    # Records and single GPUs have noises of their own, which the weights divide by.
    found = fit_blocks(blocks, _model(every), np.concatenate([measured, seconds]), 1.0, 1 / noise)
    values, errors = {}, {}
    for effect, members_of in names.items():
        values[effect] = dict(zip(members_of, found.values[effect].tolist(), strict=True))
        errors[effect] = dict(zip(members_of, found.spreads[effect].tolist(), strict=True))
    return Effects(values, errors)


def _model(curves: Sequence[Curve]) -> Model:
    """Seconds of each training from the factors of its effects, each of shape (rows,)."""
    log_seconds, sizes = np.array([one.log_seconds for one in curves]), _sizes(curves)

    def seconds(factors: Mapping[str, FloatArray]) -> FloatArray:
        return np.asarray(np.exp(interpolated(log_seconds, _log_factor(factors, sizes))))

    return seconds


def _log_factor(factors: Mapping[str, FloatArray], sizes: FloatArray) -> FloatArray:
    """The logarithm of the product of effects."""
    exponents = {effect: np.log(factors[effect]) for effect in EFFECTS}
    # slope^ln(batch / reference) is (batch / reference)^ln(slope).
    exponents["slope"] = exponents["slope"] * sizes
    return np.asarray(np.sum(list(exponents.values()), axis=0))


def _sizes(curves: Sequence[Curve]) -> FloatArray:
    """ln(batch of a device in a pass / reference batch)."""
    reference = constants_file(FILE)["reference_batch"]
    return np.asarray(np.log([one.plan.per_device / reference for one in curves]))


@cache
def anchors() -> tuple[list[Curve], FloatArray]:
    """Steps of one GPU, the anchors of the fit.

    The fastest row of single_gpu.csv for each chip and model, with its seconds.
    """
    rows = packaged_table("single_gpu.csv", _TABLE)
    fastest: dict[tuple[str, str], tuple[float, int, PublishedTraining]] = {}
    for row in _usable(rows):
        record, batch = _anchor(rows, int(row))
        seconds = batch / rows.above_zero("throughput")[row]
        key = (record.chip, record.model)
        # By the sample: rows differ in their batches.
        if key not in fastest or seconds / batch < fastest[key][0] / fastest[key][1]:
            fastest[key] = (seconds, batch, record)
    # Only the rows that turned out the fastest are simulated.
    found = [curve(record) for _, _, record in fastest.values()]
    return found, np.array([seconds for seconds, _, _ in fastest.values()])


def _usable(rows: Columns) -> IntArray:
    constants = constants_file(FILE)["single_gpu"]
    keep = (
        (rows.text("quality") == "ok")
        & (rows.text("mode") == "train")
        & ~np.isnan(rows.above_zero("batch"))
    )
    for column, table in (("gpu", "chips"), ("model", "models"), ("precision", "precisions")):
        keep &= np.isin(rows.text(column), list(constants[table]))
    return np.flatnonzero(keep)


def _anchor(rows: Columns, row: int) -> tuple[PublishedTraining, int]:
    constants = constants_file(FILE)
    table = constants["single_gpu"]
    chip = table["chips"][str(rows.text("gpu")[row])]
    hardware = next(entry for entry in constants["hardware"] if entry["chip"] == chip)
    batch = int(rows.above_zero("batch")[row])
    cluster = {"nodes": 1, "node": hardware["node"], "gpu": hardware["gpu"], "gpus_per_node": 1}
    model, precision = (
        table[name][str(rows.text(column)[row])]
        for name, column in (("models", "model"), ("precisions", "precision"))
    )
    plans = (Plan(batch, 1, 1, float(batch)),)
    strategy = {"aggregation": {"kind": "allreduce"}}
    line, name = int(rows.line[row]), str(rows.text("case_id")[row])
    return PublishedTraining(
        line,
        name,
        model,
        chip,
        hardware["family"],
        "table",
        precision,
        cluster,
        strategy,
        plans,
        (),
    ), batch

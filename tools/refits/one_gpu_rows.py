"""Rows of single_gpu.csv that the roofline is fitted on, as columns."""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.units import RATE, SPEED, human
from dpsim.hardware import Gpu, Precision, gpu_named_in
from validate.published.tables import Columns, precision_in

REQUIRED = ("gpu", "model", "framework", "precision", "mode", "batch")
TABLE = "single_gpu.csv"
_USUAL_BATCH = 128.0  # where none is stated
_HALF = ("amp", "fp16", "bf16", "mixed")


def fit_rows(rows: Columns) -> Columns:
    """Training rows of quality ok that can be timed, on GPUs of the catalogue."""
    known = [gpu_named_in(gpu) is not None for gpu in rows.text("gpu").tolist()]
    untimed = np.isnan(rows.above_zero("step_time_ms")) & np.isnan(rows.above_zero("throughput"))
    tokens = np.char.startswith(rows.text("unit"), "tokens") & np.isnan(rows.above_zero("batch"))
    good = np.isin(rows.text("quality"), ("", "ok")) & (rows.text("mode") == "train")
    return rows.where(good & np.array(known, dtype=np.bool_) & ~untimed & ~tokens)


def measured_seconds(rows: Columns) -> FloatArray:
    """Measured step seconds; where only a throughput stands, the (assumed) batch over it."""
    batch = np.nan_to_num(rows.above_zero("batch"), nan=_USUAL_BATCH)
    step = rows.above_zero("step_time_ms") * 1e-3
    return np.where(np.isnan(step), batch / rows.above_zero("throughput"), step)


def figures_of(gpu: Gpu) -> str:
    """What GPUs that share an effect of their own have in common.

    Those that differ only in the size of their memory or in their form, such as the V100 with 16
    and with 32 GB, are one GPU to the fit.
    """
    return (
        f"{gpu.architecture} {human(gpu.peak['fp32'].value, SPEED)} "
        f"{human(gpu.memory_bandwidth.value, RATE)}"
    )


def products_in(text: str, gpu: Gpu) -> tuple[Precision, bool]:
    """Returns (precision of the products, whether elements are halved)."""
    return precision_in(text, gpu), text.casefold().startswith(_HALF)

"""Published trainings: their errors against the batch, and records of ImageNet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from importlib.resources import files
from statistics import mean, stdev

import streamlit as st

from app.charts import chart
from app.headline import sentence
from dpsim.report.figures.batch_figures import ErrorRow, error_figure

_NEAR = 0.5  # percentage points within which errors count as equal
_RESNET50 = "goyal_rn50_err_vs_batch"
# The scaling rule of the learning rate, by the rows' method.
_RESNET32 = {
    "SGD rate 0.1, 200 ep": "rate 0.1",
    "SGD linear scaling, no warmup, 200 ep": "rate in proportion",
    "SGD linear scaling, gradual warmup 5 ep, 200 ep": "in proportion, with warm-up",
}
# Columns of the records, by the names used here.
_RECORDS = {
    "who": "who",
    "accelerator": "hardware",
    "how many": "accelerators",
    "global batch": "global_batch",
    "epochs": "epochs",
    "time (min)": "time_min",
    "batch in lectures": "lecture_global_batch",
    "time in lectures (min)": "lecture_time_min",
    "top-1 accuracy (%)": "top1",
    "source": "source",
    "how it was read": "source_status",
    "notes": "notes",
}


def draw() -> None:
    """Draw both tasks' errors, and the records."""
    published = _rows("convergence.csv")
    _imagenet(published)
    _cifar(published)
    st.caption(
        "Two versions of the abstract of Smith et al. name different records: Inception-ResNet-V2 "
        "to 77 % in under 2,500 updates with batches of 65,536, and ResNet-50 to 76.1 % in under "
        "30 minutes. Lectures list some records with other figures, which stand beside the papers'."
    )
    st.markdown("**Records of ImageNet**")
    records = [row for row in _rows("imagenet_records.csv") if row["top1"]]
    st.dataframe(
        {head: [_short(row[column]) for row in records] for head, column in _RECORDS.items()},
        hide_index=True,
    )


def _imagenet(published: list[dict[str, str]]) -> None:
    rows = [
        (float(row["global_batch"]), float(row["value"]), float(row["std"]))
        for row in published
        if row["case_id"] == _RESNET50
    ]
    sentence(_least_error(rows))
    chart(error_figure({"": rows}, "ResNet-50 on ImageNet, 90 epochs"), "errors")
    st.caption("Goyal et al. 2017, five runs each, learning rates in proportion to the batch.")


def _cifar(published: list[dict[str, str]]) -> None:
    series = {
        name: _over_runs(row for row in published if row["method"] == method)
        for method, name in _RESNET32.items()
    }
    sentence(_preferred(series))
    chart(error_figure(series, "ResNet-32 on CIFAR-10, 200 epochs"), "errors of resnet32")
    st.caption(
        "The mean of four runs (rate 0.1), of two (in proportion), and one run (with warm-up), "
        "each the best of its epochs: the logs of xiaoqianran/usts-202605, and "
        "gpauloski/kfac-pytorch. Masters and Luschi (2018) report the best accuracy for CIFAR-10, "
        "CIFAR-100 and ImageNet with batches from 2 to 32, in figures without a table."
    )


def _over_runs(rows: Iterable[dict[str, str]]) -> list[ErrorRow]:
    """Return the mean error and its deviation over the runs of each batch."""
    found: dict[float, list[float]] = {}
    for row in rows:
        found.setdefault(float(row["global_batch"]), []).append(float(row["value"]))
    return [
        (batch, mean(errors), stdev(errors) if len(errors) > 1 else 0.0)
        for batch, errors in found.items()
    ]


def _preferred(series: dict[str, list[ErrorRow]]) -> str:
    """Return how the error grows from the smallest to the largest batch with each scaling rule."""
    said = []
    for name, rows in series.items():
        (low, least, _), (high, most, _) = min(rows), max(rows)
        said.append(f"{least:.1f} to {most:.1f} % from {low:,.0f} to {high:,.0f} ({name})")
    return f"ResNet-32 prefers small batches: its error grows {'; '.join(said)}."


def _least_error(rows: list[ErrorRow]) -> str:
    """Return the largest batch with nearly the least error, and the error of the largest batch."""
    least = min(error for _, error, _ in rows)
    near = max(batch for batch, error, _ in rows if error <= least + _NEAR)
    batch, worst, _ = max(rows)
    said = f"Up to a batch of {near:,.0f} the error is within {_NEAR:g} % of the least, {least:g} %"
    return f"{said}; with {batch:,.0f} it is {worst:g} %."


def _rows(name: str) -> list[dict[str, str]]:
    """Return a table of published measurements."""
    file = files("validate") / "published" / "data" / name
    return list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"), newline="")))


def _short(cell: str) -> str:
    """Return a number without trailing zeros, with commas from 1,000 on; other text unchanged."""
    try:
        return f"{float(cell):,.6g}"
    except ValueError:
        return cell

"""Published trainings: their errors against the batch, and records of ImageNet."""

from __future__ import annotations

from importlib.resources import files

import pandas as pd
import streamlit as st

from app.charts import chart
from app.headline import sentence
from dpsim.report.figures.batch_figures import ErrorRow, error_figure

_EQUAL_WITHIN = 0.5  # percentage points within which errors count as equal
_RESNET50 = "goyal_rn50_err_vs_batch"
# The scaling rule of the learning rate, by the rows' method.
_RESNET32 = {
    "SGD rate 0.1, 200 ep": "rate 0.1",
    "SGD linear scaling, no warmup, 200 ep": "rate in proportion",
    "SGD linear scaling, gradual warmup 5 ep, 200 ep": "in proportion, with warm-up",
}
# Columns of the records, with the names used here.
_RECORDS = {
    "who": "who",
    "hardware": "accelerator",
    "accelerators": "how many",
    "global_batch": "global batch",
    "epochs": "epochs",
    "time_min": "time (min)",
    "lecture_global_batch": "batch in lectures",
    "lecture_time_min": "time in lectures (min)",
    "top1": "top-1 accuracy (%)",
    "source": "source",
    "source_status": "how it was read",
    "notes": "notes",
}


def draw() -> None:
    """Draw both tasks' errors, and the records."""
    published = _read("convergence.csv")
    _draw_imagenet(published)
    _draw_cifar(published)
    st.caption(
        "Two versions of the abstract of Smith et al. name different records: Inception-ResNet-V2 "
        "to 77 % in under 2,500 updates with batches of 65,536, and ResNet-50 to 76.1 % in under "
        "30 minutes. For some records, lectures list other figures than the papers; both are shown."
    )
    st.markdown("**Records of ImageNet**")
    records = _read("imagenet_records.csv").dropna(subset="top1")
    shown = records[[*_RECORDS]].rename(columns=_RECORDS)
    st.dataframe(shown, hide_index=True, placeholder="")


def _draw_imagenet(published: pd.DataFrame) -> None:
    found = published[published["case_id"] == _RESNET50]
    rows = list(found[["global_batch", "value", "std"]].itertuples(index=False, name=None))
    sentence(_least_error(rows))
    chart(error_figure({"": rows}, "ResNet-50 on ImageNet, 90 epochs"), "errors")
    st.caption("Goyal et al. 2017, five runs each, learning rates in proportion to the batch.")


def _draw_cifar(published: pd.DataFrame) -> None:
    series = {}
    for method, name in _RESNET32.items():
        runs = published[published["method"] == method].groupby("global_batch")["value"]
        series[name] = list(runs.agg(["mean", "std"]).fillna(0.0).itertuples(name=None))
    sentence(_preferred(series))
    chart(error_figure(series, "ResNet-32 on CIFAR-10, 200 epochs"), "errors of resnet32")
    st.caption(
        "The mean of four runs (rate 0.1), of two (in proportion), and one run (with warm-up), "
        "each the best of its epochs: the logs of xiaoqianran/usts-202605, and "
        "gpauloski/kfac-pytorch. Masters and Luschi (2018) report the best accuracy for CIFAR-10, "
        "CIFAR-100 and ImageNet with batches from 2 to 32, in figures without a table."
    )


def _preferred(series: dict[str, list[ErrorRow]]) -> str:
    """Return how the error grows from the smallest to the largest batch with each scaling rule."""
    text = []
    for name, rows in series.items():
        (low, least, _), (high, most, _) = min(rows), max(rows)
        text.append(f"{least:.1f} to {most:.1f} % from {low:,.0f} to {high:,.0f} ({name})")
    return f"ResNet-32 prefers small batches: its error grows {'; '.join(text)}."


def _least_error(rows: list[ErrorRow]) -> str:
    """Return the largest batch with nearly the least error, and the error of the largest batch."""
    least = min(error for _, error, _ in rows)
    near = max(batch for batch, error, _ in rows if error <= least + _EQUAL_WITHIN)
    batch, worst, _ = max(rows)
    return (
        f"Up to a batch of {near:,.0f} the error is within {_EQUAL_WITHIN:g} % of the least, "
        f"{least:g} %; with {batch:,.0f} it is {worst:g} %."
    )


def _read(name: str) -> pd.DataFrame:
    """Return a table of published measurements."""
    with (files("validate") / "published" / "data" / name).open(encoding="utf-8") as file:
        return pd.read_csv(file)

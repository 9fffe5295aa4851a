"""Rows of the published tables of steps, and files of such."""

import csv
from pathlib import Path

DATA = Path("validate/published/data")
TABLES = {
    "single-gpu": "single_gpu.csv",
    "adaptdl": "adaptdl_steptime.csv",
    "vtrain": "vtrain_steptime.csv",
    "scaling": "scaling.csv",
    "overlap": "scaling.csv",
    "imagenet": "imagenet_records.csv",
    "llm": "llm_fsdp.csv",
    "mlperf": "mlperf_training.csv",
    "steps": "steps_2.csv",
}


def lines(kind, keep=lambda row: True):
    with (DATA / TABLES[kind]).open(newline="", encoding="utf-8") as stream:
        return [row for row in csv.DictReader(stream) if keep(row)]


def written(path, rows):
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path


def one_cluster(row):
    return row["cluster"] == "rtx2080ti"

"""A summary of predictions beside published measurements, as `tools.published_errors` writes it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

KEPT = Path(__file__).with_name("published.json")
_NCCL = "four tables of nccl-tests"
# The file and the title of each kind of table.
TABLES = {
    "adaptdl": ("adaptdl_steptime.csv", "small clusters (AdaptDL)"),
    "vtrain": ("vtrain_steptime.csv", "GPT on A100 (vTrain)"),
    "scaling": ("scaling.csv", "scaling of published systems"),
    "overlap": ("scaling.csv", "overlapping communication"),
    "single-gpu": ("single_gpu.csv", "single GPUs"),
    "imagenet": ("imagenet_records.csv", "records of ImageNet"),
    "nccl-nvlink": (_NCCL, "NCCL in one NVLink node"),
    "nccl-pcie": (_NCCL, "NCCL in one PCIe node"),
    "nccl-xgmi": (_NCCL, "RCCL in one xGMI node"),
    "nccl-between": (_NCCL, "NCCL between nodes"),
    "llm": ("llm_fsdp.csv", "language models, sharded"),
    "mlperf": ("mlperf_training.csv", "MLPerf Training"),
    "steps": ("steps_2.csv", "one GPU to some hundred"),
}


def title(kind: str) -> str:
    """Return the title of a kind of table."""
    return TABLES[kind][1]


def quantity_of(kind: str) -> str:
    """Return the quantity that a kind of table measures, in s."""
    return "time of a collective" if TABLES[kind][0] == _NCCL else "step time"


@cache
def published() -> dict[str, dict[str, Any]]:
    """Return the summaries by kind of table.

    Each has the errors over all rows that count, and some of its rows as `Pair`.
    """
    content: dict[str, dict[str, Any]] = json.loads(KEPT.read_text(encoding="utf-8"))["tables"]
    return content

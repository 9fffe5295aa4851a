"""A summary of predictions beside published measurements, as `tools.published_errors` writes it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

KEPT = Path(__file__).with_name("published.json")
_NCCL = "four tables of nccl-tests"
# The table of each kind, the compared quantity, and its unit.
TABLES = {
    "adaptdl": ("adaptdl_steptime.csv", "step time", "s"),
    "vtrain": ("vtrain_steptime.csv", "step time", "s"),
    "scaling": ("scaling.csv", "step time", "s"),
    "overlap": ("scaling.csv", "step time", "s"),
    "single-gpu": ("single_gpu.csv", "step time", "s"),
    "imagenet": ("imagenet_records.csv", "step time", "s"),
    "nccl-nvlink": (_NCCL, "time of a collective", "s"),
    "nccl-pcie": (_NCCL, "time of a collective", "s"),
    "nccl-xgmi": (_NCCL, "time of a collective", "s"),
    "nccl-between": (_NCCL, "time of a collective", "s"),
    "llm": ("llm_fsdp.csv", "step time", "s"),
    "mlperf": ("mlperf_training.csv", "step time", "s"),
    "steps": ("steps_2.csv", "step time", "s"),
}

# The display names.
TITLES = {
    "adaptdl": "small clusters (AdaptDL)",
    "vtrain": "GPT on A100 (vTrain)",
    "scaling": "scaling of published systems",
    "overlap": "overlapping communication",
    "single-gpu": "single GPUs",
    "imagenet": "records of ImageNet",
    "nccl-nvlink": "NCCL in one NVLink node",
    "nccl-pcie": "NCCL in one PCIe node",
    "nccl-xgmi": "RCCL in one xGMI node",
    "nccl-between": "NCCL between nodes",
    "llm": "language models, sharded",
    "mlperf": "MLPerf Training",
    "steps": "one GPU to some hundred",
}


@cache
def published() -> dict[str, dict[str, Any]]:
    """Return the summaries by kind of table.

    Each has the errors over all rows that count, and some of its rows as `Pair`.
    """
    content: dict[str, dict[str, Any]] = json.loads(KEPT.read_text(encoding="utf-8"))["tables"]
    return content


def computing_errors() -> dict[str, float]:
    """Return errors of computed steps over published rows, leaving out each publisher."""
    from dpsim.workload import constants_file

    found: dict[str, float] = constants_file()["errors"]["each publisher left out"]["all"]
    return found

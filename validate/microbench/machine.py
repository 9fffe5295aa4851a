"""Description of the machine of a measurement, for later readers."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
from typing import Any

import torch

from dpsim.base.provenance import stamp
from validate.ranks.device import processor
from validate.ranks.smi import ask, mps_runs

# Fields of nvidia-smi --query-gpu; both clocks, since an application clock may be set lower.
_STATE = (
    "driver_version",
    "power.limit",
    "clocks.applications.graphics",
    "clocks.max.graphics",
    "ecc.mode.current",
    "mig.mode.current",
)


def machine() -> dict[str, Any]:
    """Return the machine of this process: host, CPU, usable cores, GPUs and kernel."""
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return {
        "host": socket.gethostname(),
        "cpu": processor(),
        "cores": _cores(),
        "gpus": [str(torch.cuda.get_device_name(gpu)) for gpu in range(gpus)],
        "kernel": f"{platform.system()} {platform.release()}",
    }


def _cores() -> int | None:
    if hasattr(os, "sched_getaffinity"):  # not on macOS
        return len(os.sched_getaffinity(0))
    return os.cpu_count()


def provenance() -> dict[str, str]:
    """Return versions, the GPU's state if it is known, and the date."""
    versions = {"python": platform.python_version(), "torch": str(torch.__version__)}
    if torch.version.cuda:
        versions |= {
            "cuda": str(torch.version.cuda),
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        }
    if state := gpu_state():
        versions["gpu_state"] = state
    return stamp(**versions)


def gpu_state() -> str:
    """Return driver, limits and modes of the first GPU, which affect times; "" if unknown."""
    try:
        output = ask(f"--query-gpu={','.join(_STATE)}", "--format=csv,noheader", "--id=0")
    except (OSError, subprocess.SubprocessError):
        return ""
    values = output.split(", ")
    if len(values) != len(_STATE):
        return ""
    state = ", ".join(f"{name} {value}" for name, value in zip(_STATE, values, strict=True))
    return f"{state}, mps {'on' if mps_runs() else 'off'}"

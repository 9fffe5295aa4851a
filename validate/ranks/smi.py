"""Queries ``nvidia-smi`` about this machine's GPUs: state, processes and topology.

GPUs that it does not list (of another vendor, or none) have no entries here.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PATIENCE_S = 20.0  # it waits for the driver, which may sleep
_MPS = "/tmp/nvidia-mps"  # nosec B108 - the default folder of its control daemon
_IDLE_BIT = 0x1
# Bits of the reasons for reduced clocks that slow work down; from NVML's header, nvml.h.
_SLOWED_BY = {
    0x2: "application clocks are set",
    0x4: "the power cap",
    0x8: "a hardware slowdown",
    0x20: "heat (software)",
    0x40: "heat (hardware)",
    0x80: "the power brake",
}
_STATE = (
    "name",
    "uuid",
    "memory.total",
    "memory.used",
    "clocks.sm",
    "clocks.max.sm",
    "mig.mode.current",
    "driver_version",
)
# Renamed in drivers from 535 on.
_REASONS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
_MIB = 2**20


@dataclass(frozen=True, slots=True)
class GpuState:
    """One GPU: bytes of memory, clocks in Hz, and the current reasons for its clock limit."""

    name: str
    uuid: str
    memory: int
    used: int
    clock: float
    max_clock: float
    is_divided: bool
    driver: str
    slowed_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuProcess:
    """A process on a GPU, and the bytes that it holds there."""

    uuid: str
    pid: int
    name: str
    held: int


def ask(*words: str) -> str:
    """Return nvidia-smi's output. Raises OSError if it is not installed, else SubprocessError."""
    ran = subprocess.run(  # nosec B607 - the driver puts it on the path
        ["nvidia-smi", *words], check=True, capture_output=True, text=True, timeout=_PATIENCE_S
    )
    return ran.stdout.strip()


def why_silent() -> str:
    """Return its error message in one line; "" if it works or is not installed."""
    try:
        ask("-L")
    except subprocess.CalledProcessError as error:
        output = (error.stdout or error.stderr or "").strip().splitlines()
        return output[0] if output else f"nvidia-smi ended with {error.returncode}"
    except (OSError, subprocess.SubprocessError):
        return ""
    return ""


def mps_runs() -> bool:
    """Return whether NVIDIA's multi-process service is running.

    With it kernels of several processes run concurrently; without it they take turns.
    """
    return Path(os.environ.get("CUDA_MPS_PIPE_DIRECTORY", _MPS), "control").exists()


def gpu_states() -> list[GpuState]:
    """Return the state of every GPU of this machine; empty if unknown."""
    rows = _query("gpu", _STATE)
    reasons = next(filter(None, (_query("gpu", (name,)) for name in _REASONS)), [])
    return [_state(row, reasons[n][0] if n < len(reasons) else "") for n, row in enumerate(rows)]


def gpu_processes() -> list[GpuProcess]:
    """Return all processes that compute on this machine's GPUs and are visible to this user."""
    rows = _query("compute-apps", ("gpu_uuid", "pid", "process_name", "used_memory"))
    return [GpuProcess(uuid, int(pid), name, _MIB * _int(held)) for uuid, pid, name, held in rows]


def topology() -> str:
    """Return the matrix of ``nvidia-smi topo -m``, "" if there is none."""
    try:
        return ask("topo", "-m")
    except (OSError, subprocess.SubprocessError):
        return ""


def _query(what: str, fields: Sequence[str]) -> list[list[str]]:
    """Return a row per GPU or process, its fields in order; empty if a field is unknown."""
    words = f"--query-{what}={','.join(fields)}", "--format=csv,noheader,nounits"
    try:
        output = ask(*words)
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [line.split(", ") for line in output.splitlines()]
    return [row for row in rows if len(row) == len(fields)]


def _state(row: Sequence[str], reasons: str) -> GpuState:
    name, uuid, memory, used, clock, highest, divided, driver = row
    try:
        bits = int(reasons, 16)
    except ValueError:
        bits = 0
    return GpuState(
        name,
        uuid,
        _MIB * _int(memory),
        _MIB * _int(used),
        1e6 * _int(clock),
        1e6 * _int(highest),
        divided == "Enabled",
        driver,
        # An idle GPU runs slowly for that reason, whatever else holds.
        () if bits & _IDLE_BIT else tuple(why for bit, why in _SLOWED_BY.items() if bits & bit),
    )


def _int(text: str) -> int:
    return int(text) if text.strip().isdecimal() else 0

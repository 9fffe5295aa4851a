"""Diagnosis of this machine: hardware, obstacles, and the plan of ``dpsim validate node``."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from dpsim.base.errors import DpsimError
from dpsim.base.units import DATA, human
from dpsim.imports.nvidia_topo import parse_nvidia_topo
from validate.microbench.machine import machine
from validate.node.disturbed import busy_cores, reduced_clocks, too_busy, used_by
from validate.node.hardware import catalogue_name
from validate.node.node_profile import node_plan
from validate.ranks.device import why_no_gpu
from validate.ranks.processes import BACKENDS, why_missing
from validate.ranks.smi import (
    GpuProcess,
    GpuState,
    gpu_processes,
    gpu_states,
    mps_runs,
    topology,
    why_silent,
)

_SHARED_MEMORY = Path("/dev/shm")  # nosec B108 - read, never written to
_LEAST_SHARED = 2**30  # bytes of it: NCCL takes 10 MB a pair of ranks and channel
_FREE_MEMORY_SHARE = 0.95  # of a GPU's memory, beside the driver's own part
_NETWORK = Path("/sys/class/net")
_INFINIBAND = Path("/sys/class/infiniband")

Json = dict[str, Any]


def diagnosis() -> Json:
    """Return the whole diagnosis as plain values; ``problems`` are sentences."""
    states, processes = gpu_states(), gpu_processes()
    gpus = torch.cuda.is_available()
    plan, refused = _plan()
    busy = busy_cores()
    return {
        "device": "cuda" if gpus else "cpu",
        "gpus": [_gpu(state) for state in states],
        "links": _links(),
        "nics": _nics(),
        "processes": [
            {"gpu": each.uuid, "pid": each.pid, "name": each.name, "held_bytes": each.held}
            for each in processes
        ],
        "machine": {
            **machine(),
            "busy_cores": busy,
            "free_disk_bytes": shutil.disk_usage(".").free,
        },
        "versions": _versions(states),
        "mps": mps_runs(),
        "backends": [name for name in BACKENDS if not why_missing(name)],
        "problems": [*_gpu_problems(states, processes), *_machine_problems(busy), *refused],
        "plan": plan,
        "seconds": sum(item["seconds"] for item in plan),
    }


def _plan() -> tuple[list[Json], list[str]]:
    """Return the planned measurements, or the reason why there are none."""
    try:
        items = node_plan().items
    except DpsimError as error:
        return [], [str(error)]
    return [{"name": item.name, "ranks": item.ranks, "seconds": item.seconds} for item in items], []


def _gpu(state: GpuState) -> Json:
    name = catalogue_name(state.name)
    return {
        "name": state.name,
        "catalogue": None if name == state.name else name,
        "memory_bytes": state.memory,
        "used_bytes": state.used,
        "clock_hz": state.clock,
        "max_clock_hz": state.max_clock,
        "slowed_by": list(state.slowed_by),
        "mig": state.is_divided,
    }


def _versions(states: Sequence[GpuState]) -> Json:
    nccl = torch.version.cuda and dist.is_nccl_available()
    return {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "cuda": torch.version.cuda,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if nccl else None,
        "driver": states[0].driver if states else None,
    }


def _links() -> Json | None:
    """Return the number of pairs of GPUs by kind of link."""
    try:
        matrix = parse_nvidia_topo(topology().encode())
    except DpsimError:
        return None
    pairs: dict[str, int] = {}
    for a in range(matrix.gpus):
        for b in range(a + 1, matrix.gpus):
            kind = matrix.cells[a][b]
            pairs[kind] = pairs.get(kind, 0) + 1
    return {"gpus": matrix.gpus, "pairs": pairs}


def _nics() -> list[Json]:
    """Return network interfaces that lead out of this machine, with their rates if known."""
    nics = []
    for nic in sorted(_NETWORK.iterdir()) if _NETWORK.exists() else []:
        # Virtual interfaces (bridges, tunnels, the loopback) have no such link.
        if (nic / "device").exists():
            nics.append({"name": nic.name, "kind": "ethernet", "rate_Bps": _rate(nic / "speed")})
    for nic in sorted(_INFINIBAND.iterdir()) if _INFINIBAND.exists() else []:
        nics.append(
            {"name": nic.name, "kind": "rdma", "rate_Bps": _rate(nic / "ports/1/rate", 1e3)}
        )
    return nics


def _rate(file: Path, scale: float = 1.0) -> float | None:
    """Return bytes per second from a file's number in Mbit/s, or ``scale`` times that."""
    try:
        number = float(file.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        return None
    return number * scale * 1e6 / 8 if number > 0 else None


def _gpu_problems(states: Sequence[GpuState], processes: Sequence[GpuProcess]) -> Iterator[str]:
    if (states or why_silent()) and not torch.cuda.is_available():
        yield f"torch cannot use the GPUs that are here: {why_no_gpu()}"
    for index, state in enumerate(states):
        where = f"GPU {index} ({state.name})"
        if state.is_divided:
            yield f"{where} is divided by MIG, and a slice is no GPU of the catalogue: turn MIG off"
        mine = [each for each in processes if each.uuid == state.uuid]
        yield from used_by(mine, states)
        if not mine and state.used > (1 - _FREE_MEMORY_SHARE) * state.memory:
            yield f"{where} has {human(state.used, DATA, 3)} in use by processes that are not shown"
    yield from reduced_clocks(states)


def _machine_problems(busy: float | None) -> Iterator[str]:
    if torch.cuda.is_available():
        if missing := why_missing("nccl"):
            yield f"NCCL cannot be used: {missing}"
        size = shutil.disk_usage(_SHARED_MEMORY).total if _SHARED_MEMORY.exists() else _LEAST_SHARED
        if size < _LEAST_SHARED:
            yield (
                f"{_SHARED_MEMORY} has {human(size, DATA, 3)}, too little for NCCL: docker run "
                "--shm-size 8g or --ipc host"
            )
    yield from too_busy(busy)

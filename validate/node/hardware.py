"""The hardware of this node, compared with a scenario's."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from dpsim.base.budget import check_memory
from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate
from dpsim.engine import memory_use
from dpsim.hardware import gpu_named_in, gpus, nodes
from dpsim.scenario import Scenario
from validate.emulate import Case, placement
from validate.ranks.device import CpuFace, CudaFace
from validate.ranks.processes import place_from_environment, usable_gpus

# Processes of one machine send through its memory: an assumed rate above gloo's there, so that
# refitted constants, and not this link, determine the time of a collective.
_LOOPBACK = {"name": "loopback", "rate": "100 Gbit/s", "latency": "10 us"}
# Nodes used to describe others: PCIe 4.0 with as many GPUs as are here, or slightly more.
_BOXES = ("single-gpu", "pcie4-4gpu", "pcie4-8gpu")
MOST_PROCESSES = 32  # ranks on one processor: more would only wait for one another


@dataclass(frozen=True, slots=True)
class Here:
    """The devices of this node: ``kind`` cpu or cuda, their number, and their name."""

    kind: str
    count: int
    name: str
    memory: int


def here(device: str) -> Here:
    """Return the devices of ``device`` (auto, cpu or cuda). Raises DpsimError if there are none."""
    gpus = usable_gpus(device)
    if gpus and device != "cpu":
        face = CudaFace(0)
        # Count ranks where a launcher started them, since a scheduler may show each only one GPU.
        launched = "LOCAL_WORLD_SIZE" in os.environ
        count = place_from_environment().local_size if launched else gpus
        return Here("cuda", count, face.name, face.capacity)
    processor = CpuFace()
    return Here("cpu", MOST_PROCESSES, processor.name, processor.capacity)


def check(scenario: Scenario, node: Here, ranks_of_launcher: int | None) -> None:
    """Raise one DpsimError, with remedies, for everything that this node cannot run."""
    problems = []
    wanted = scenario.cluster.ranks
    # Processes may represent any GPU: with a calibration measured here, times are comparable.
    if node.kind == "cuda":
        names = {part.accelerator.name for part in scenario.cluster.parts}
        found = catalogue_name(node.name)
        if names != {found}:
            problems.append(f"its GPUs are {', '.join(sorted(names))}, and here are {node.name}")
    if ranks_of_launcher is None and wanted > node.count:
        what = "processes" if node.kind == "cpu" else "GPUs"
        problems.append(f"it has {wanted} workers, and here are {node.count} {what}")
    ranks = placement(scenario).ranks
    if ranks_of_launcher not in (None, ranks):
        problems.append(f"it has {ranks} ranks, and the launcher has started {ranks_of_launcher}")
    if problems:
        raise DpsimError(
            f"{scenario.name}: must be for the hardware that is here, but {'; '.join(problems)}. "
            "--as-here takes what is here and keeps the rest"
        )


def check_memory_here(scenario: Scenario) -> None:
    """Raise FailedError if this machine cannot hold all workers as processes.

    A system that is out of memory kills ranks, and other programs too.
    """
    held, workers = memory_use(scenario).held, scenario.cluster.ranks
    check_memory(
        workers * (held.total - held.context),
        f"{scenario.name}: {workers} workers on one machine",
        "a smaller batch_per_gpu, fewer nodes, or --compute timed, which holds weights alone",
    )


def catalogue_name(name: str) -> str:
    """Return the catalogue's name of a GPU with driver name ``name``; ``name`` if not known.

    A slice of a GPU (MIG) is not in the catalogue: it has a part of the GPU's units and memory.
    """
    found = None if "MIG" in name.split() else gpu_named_in(name)
    return name if found is None else found.name


def as_here(case: Case, node: Here, ranks_of_launcher: int | None) -> Case:
    """Return the case on the hardware of this node, all else unchanged.

    On GPUs, the catalogue's node that has them, with as many as there are, or else its PCIe box
    with such GPUs; on a processor, a host of the testbed for each rank. Raises DpsimError for GPUs
    that the catalogue does not know.
    """
    scenario = case.scenario()
    servers = placement(scenario).servers
    # A launcher may have started ranks on several nodes, of which this is one.
    if ranks_of_launcher is None:
        workers = min(scenario.cluster.ranks, node.count)
    else:
        workers = ranks_of_launcher - servers
    cluster = cluster_here(node, workers)
    return Case(case.file, (*case.set, "testbed=null", f"cluster={json.dumps(cluster)}"))


def cluster_here(node: Here, workers: int) -> dict[str, Any]:
    """Return the cluster of so many workers on this node, or on as many such nodes as needed.

    Raises DpsimError for GPUs that the catalogue does not know.
    """
    if node.kind == "cpu":
        network = {"fabric": "single-switch", "nic": _LOOPBACK}
        return {"nodes": min(workers, node.count), "node": "testbed-host", "network": network}
    machines = -(-workers // node.count)
    each = workers // machines
    gpu = catalogue_name(node.name)
    return {"nodes": machines, **_node_with(gpu, each, node), "gpus_per_node": each}


def _node_with(gpu: str, count: int, here: Here) -> dict[str, str]:
    """Return the node of a cluster that has ``count`` of ``gpu``, by their catalogue names."""
    for name in nodes():
        if nodes()[name].gpu.name == gpu and nodes()[name].gpus >= count:
            return {"node": name}
    boxes = [name for name in _BOXES if nodes()[name].gpus >= count]
    if gpu not in gpus() or not boxes:
        raise DpsimError(
            f"the catalogue must know the GPUs that are here, but has no {count} x {here.name}: "
            "describe them as a cluster in the scenario"
        )
    narrate(
        f"the catalogue has no node of {count} {gpu}: links are taken to be those of {boxes[0]}"
    )
    return {"node": boxes[0], "gpu": gpu}

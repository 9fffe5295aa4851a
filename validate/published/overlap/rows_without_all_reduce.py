"""Rows of scaling.csv whose gradients meet otherwise than by an all-reduce.

Parameter servers and gossip, as scenarios.

Parameter servers of the TensorFlow page: one server on the node's CPU, gradients pushed in buckets
while the backward pass goes on; compute times are scaled to the case's own row on one GPU. Gossip:
one neighbour a step at a distance of 1, 2, 4, ...; where a case has no smaller row, compute times
are the catalogue's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsim.base.errors import DpsimError
from dpsim.engine import prepare, run_together
from dpsim.scenario import Scenario
from dpsim.workload import canonical_name
from validate.published.tables import Columns, scenario_of_row

_SERVER = {"kind": "parameter-server", "servers": 1, "colocated": True}
_GOSSIP = {"kind": "gossip", "graph": "exponential"}

# A word in the column gpu, its node and its GPU. Where one word begins another, it comes after.
_HARDWARE = (
    ("p100-sxm", "dgx1-p100", "p100-sxm2"),
    ("p100", "pcie-8gpu", "p100-pcie"),
    ("v100", "dgx1-v100", "v100-sxm2-16gb"),
    ("k80", "pcie-8gpu", "k80"),
)
_STEPS = 3
_MOST_PER_NODE = 8  # of the nodes above


@dataclass(frozen=True, slots=True)
class PredictedRow:
    """The predicted step of one row: its seconds, and what compute times were scaled to.

    ``aggregation`` is the kind by which its gradients meet.
    """

    index: int
    aggregation: str
    seconds: float
    constants: str


def aggregation_of(system: str, sync: str, notes: str) -> Mapping[str, Any] | None:
    """The aggregation that a row states; None for those that are none of these.

    Raises DpsimError for servers on a GPU.
    """
    if "gossip" in f"{system} {sync}".casefold():
        return _GOSSIP
    if not re.search(r"parameter[_ -]server", notes.casefold()):
        return None
    if re.search(r"parameter[_ -]server on gpu", notes.casefold()):
        raise DpsimError("servers on a GPU: those of the simulator run on CPUs")
    return _SERVER


def rows_without_all_reduce(rows: Columns) -> tuple[list[PredictedRow], dict[int, str]]:
    """The rows of parameter servers and gossip, predicted, and why others cannot be, by index."""
    found, refused = [], {}
    cells = zip(*(rows.text(name).tolist() for name in ("system", "sync", "notes")), strict=True)
    for index, texts in enumerate(cells):
        try:
            aggregation = aggregation_of(*texts)
            if aggregation is not None:
                found.append(_predicted(rows, index, aggregation))
        except DpsimError as error:
            refused[index] = str(error)
    return found, refused


def _predicted(rows: Columns, index: int, aggregation: Mapping[str, Any]) -> PredictedRow:
    job = prepare(_scenario(rows, index, aggregation))
    base, words = _alone(rows, index), "the catalogue's compute times"
    if base is not None:
        job = job.scaled(base / float(job.positions[-1].max()))
        words = "compute scaled to the case's row on one GPU"
    elif aggregation is _SERVER:
        raise DpsimError("no row of this case on one GPU, or this is it")
    steps = run_together(job, np.ones((_STEPS, job.workers)), lambda done: None)
    return PredictedRow(index, str(aggregation["kind"]), float(steps.step[-1].mean()), words)


def _alone(rows: Columns, index: int) -> float | None:
    """Seconds of the step of the same case on one GPU, where that is another row."""
    same = np.flatnonzero(
        (rows.text("case_id") == rows.text("case_id")[index]) & (rows.numbers("gpus") == 1)
    )
    step = rows.above_zero("step_time_ms")[same] * 1e-3
    return float(step[0]) if len(step) and same[0] != index and np.isfinite(step[0]) else None


def _scenario(rows: Columns, index: int, aggregation: Mapping[str, Any]) -> Scenario:
    row = rows.where(np.array([index]))
    ranks, nodes = row.positive("gpus")[0], np.nan_to_num(row.above_zero("nodes")[0], nan=1.0)
    if ranks / nodes > _MOST_PER_NODE:
        raise DpsimError(f"more than {_MOST_PER_NODE} GPUs a node, or the nodes are not stated")
    gpu = str(rows.text("gpu")[index]).casefold()
    hardware = next(((node, kind) for word, node, kind in _HARDWARE if word in gpu), None)
    if hardware is None:
        raise DpsimError(f"no node for {gpu!r}")
    cluster = {
        "nodes": int(nodes),
        "node": hardware[0],
        "gpu": hardware[1],
        "gpus_per_node": int(ranks / nodes),
    }
    if nodes > 1:
        cluster["network"] = {
            "fabric": "single-switch",
            "nic": _nic(str(rows.text("network")[index])),
            "nics_per_node": 1,
        }
    return scenario_of_row(
        {
            "name": str(rows.text("case_id")[index]),
            "cluster": cluster,
            "workload": {
                "model": canonical_name(str(rows.text("model")[index])),
                "batch_per_gpu": int(row.positive("per_gpu_batch")[0]),
            },
            "strategy": {"aggregation": aggregation, "overlap": {"kind": "buckets"}},
            "run": {"steps": _STEPS, "warmup": 0},
        }
    )


def _nic(network: str) -> str:
    rate = re.search(r"(\d+)\s*g", network.casefold())
    if rate is None:
        raise DpsimError(f"no rate in {network!r}")
    return f"{rate[1]}GbE"

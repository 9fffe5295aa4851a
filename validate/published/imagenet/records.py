"""Rows of imagenet_records.csv as scenarios.

Hardware, batch and epochs as published; what had to be assumed is listed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpsim.base.errors import DpsimError
from dpsim.convergence import tasks
from dpsim.scenario import Scenario
from dpsim.workload import canonical_name
from validate.published.convergence import runs_of
from validate.published.tables import Columns, constants_file, scenario_of_row

FILE = "imagenet/settings.yaml"
_MOST_DEVICES = 10**6  # of a record: more is a slip
_MOST_SAMPLES = 10**9  # of a global batch, likewise


@dataclass(frozen=True, slots=True)
class Plan:
    """A way to run a record.

    Samples of all devices in a step, of one device in a pass, passes, and samples in the training.
    """

    per_device: int
    passes: int
    devices: int
    samples: float

    @property
    def global_batch(self) -> int:
        """Samples in a step."""
        return self.per_device * self.passes * self.devices

    @property
    def steps(self) -> float:
        """Steps of the training."""
        return self.samples / self.global_batch


@dataclass(frozen=True, slots=True)
class PublishedTraining:
    """One row: what ran on what, in which ways, and what had to be assumed.

    The row allows one way where it states a batch, else several. ``cluster`` and ``strategy`` are
    those parts of a scenario, as its file says them.
    """

    line: int
    name: str
    model: str
    chip: str
    family: str
    suite: str
    precision: str
    cluster: Mapping[str, Any]
    strategy: Mapping[str, Any]
    plans: tuple[Plan, ...]
    assumed: tuple[str, ...]
    sequence_length: int | None = None
    optimizer: str = "momentum"

    def content(self, plan: Plan) -> dict[str, Any]:
        """The scenario's file."""
        workload: dict[str, Any] = {
            "model": self.model,
            "batch_per_gpu": plan.per_device,
            "precision": self.precision,
        }
        workload |= {"gradient_accumulation": plan.passes} if plan.passes > 1 else {}
        workload |= {"sequence_length": self.sequence_length} if self.sequence_length else {}
        workload |= {"execution": "graph", "optimizer": self.optimizer}
        assumed = constants_file(FILE)["assumed"]
        return {
            "name": self.name,
            "cluster": dict(self.cluster),
            "workload": workload,
            "strategy": dict(self.strategy),
            "disturbance": {"jitter": {"kind": "lognormal", "sigma": assumed["jitter"]["value"]}},
            "run": {"steps": assumed["steps"]["value"], "warmup": 0, "allow_out_of_memory": True},
        }

    def scenario(self, plan: Plan) -> Scenario:
        """The scenario."""
        return scenario_of_row(self.content(plan))


def read_record(rows: Columns, row: int) -> PublishedTraining:
    """The record that a row of the table states.

    Raises DpsimError, in words for the user, where what it ran on or how long cannot be told.
    """
    rows = rows.where(np.array([row]))
    cells = {name: str(column[0]) for name, column in rows.columns.items()}
    constants = constants_file(FILE)
    hardware = _first(constants["hardware"], cells["hardware"])
    if hardware is None:
        raise DpsimError(f"hardware not known: {cells['hardware']}")
    model = _model(cells["model"])
    mlperf = (
        "mlperf" in " ".join((cells["record_id"], cells["who"], cells.get("source", ""))).casefold()
    )
    count = rows.numbers("accelerators")[0]
    if not 1 <= count <= _MOST_DEVICES:
        raise DpsimError(f"number of accelerators not stated, or above {_MOST_DEVICES:,}")

    devices, notes = _devices(hardware, cells["hardware"], int(count))
    cluster, cluster_notes = _cluster(hardware, cells, devices)
    plans, plan_notes = _plans(rows, model, devices, mlperf)
    # Large fp32 runs of the time sent gradients in half precision (Akiba et al. 2017, Jia et al.
    # 2018).
    is_large = devices >= constants["assumed"]["half_gradients_from"]["value"]
    half = hardware["precision"] != "fp32" or is_large
    return PublishedTraining(
        int(rows.line[0]),
        cells["record_id"],
        model,
        hardware["chip"],
        hardware["family"],
        "mlperf" if mlperf else "paper",
        hardware["precision"],
        cluster,
        _strategy(hardware["family"], half),
        plans,
        (*notes, *cluster_notes, *plan_notes, f"precision {hardware['precision']}"),
        constants["mlperf"].get(model, {}).get("sequence_length") if mlperf else None,
        _optimizer(model, cells["who"], mlperf=mlperf),
    )


def _optimizer(model: str, who: str, *, mlperf: bool) -> str:
    """The optimizer of a record: of MLPerf that of its reference points, else as the paper says."""
    constants = constants_file(FILE)
    if mlperf and model in constants["mlperf"]:
        return tasks()[constants["mlperf"][model]["task"]].optimizers[0]
    stated = _first(constants["optimizers"], who)
    return "momentum" if stated is None else str(stated["optimizer"])


def _first(entries: Sequence[dict[str, Any]], text: str) -> dict[str, Any] | None:
    """The first entry one of whose words is in the text."""
    low = text.casefold().replace("_", "-")
    return next((entry for entry in entries if any(word in low for word in entry["words"])), None)


def _model(text: str) -> str:
    try:
        return canonical_name(re.sub(r"\(.*?\)", "", text).strip())
    except DpsimError:
        raise DpsimError(f"model not known: {text}") from None


def _devices(hardware: Mapping[str, Any], text: str, count: int) -> tuple[int, list[str]]:
    """Chips: a row may count cores of which a chip has two, or boards that hold several."""
    if "cores" in hardware and "core" in text.casefold():
        return max(1, count // hardware["cores"]), [f"{hardware['cores']} cores a chip"]
    if "chips" in hardware:
        return count * hardware["chips"], [f"{hardware['chips']} chips a board"]
    return count, []


def _cluster(
    hardware: Mapping[str, Any], cells: Mapping[str, str], devices: int
) -> tuple[dict[str, Any], list[str]]:
    constants = constants_file(FILE)
    words = f"{cells['hardware']} {cells.get('interconnect', '')}"
    system = _first(constants["systems"], words)
    link = _first(constants["links"], cells.get("interconnect", ""))
    # What the row says goes before what is usual of the system, and that before the chip's.
    stated = re.search(r"(\d+)[- ]GPUs?\b", words)
    per_node = int(stated[1]) if stated else (system or hardware)["per_node"]
    per_node = min(per_node, devices, hardware["per_node"])
    gpu = constants["gpus"].get(hardware["gpu"], hardware["gpu"])
    torus = hardware["family"].startswith("tpu")
    network: dict[str, Any] = {"fabric": "torus" if torus else "single-switch"}
    nic = link["nic"] if link else hardware.get("nic")
    if nic:
        cards = re.search(r"(\d+)x IB", words)
        count = int(cards[1]) if cards else hardware.get("cards", 1)
        network |= {"nic": nic, "nics_per_node": count}
    nodes = -(-devices // per_node)
    notes = [] if nodes == 1 or link or torus else [f"network cards of {nic or hardware['node']}"]
    notes += [] if stated or system or torus or per_node == 1 else [f"{per_node} devices a node"]
    cluster = {
        "nodes": nodes,
        "node": hardware["node"],
        "gpu": gpu,
        "gpus_per_node": per_node,
        "network": network,
    }
    return cluster, notes


def _strategy(family: str, half: bool) -> dict[str, Any]:
    """NVIDIA's GPUs by NCCL, TPUs by their torus, others by halving and doubling."""
    if family.startswith("tpu"):
        aggregation = {"kind": "allreduce", "algorithm": "torus-2d"}
    elif family in ("knl", "xeon"):
        aggregation = {"kind": "allreduce", "algorithm": "halving-doubling"}
    else:
        aggregation = {"kind": "allreduce", "library": "nccl"}
    return {"aggregation": aggregation, "compression": {"kind": "cast" if half else "none"}}


def _plans(
    rows: Columns, model: str, devices: int, mlperf: bool
) -> tuple[tuple[Plan, ...], list[str]]:
    """The ways to run the one row, with what is assumed in them."""
    constants = constants_file(FILE)
    batch, epochs = _batch(str(rows.text("global_batch")[0])), rows.above_zero("epochs")[0]
    if mlperf and not epochs > 0:
        if model not in constants["mlperf"]:
            raise DpsimError(f"epochs not stated, and no reference points known of {model}")
        return _by_reference(constants["mlperf"][model], devices, batch)
    assumed = constants["assumed"]
    notes = [] if epochs > 0 else [f"{assumed['epochs']['value']} epochs"]
    if model.startswith("bert"):
        raise DpsimError("samples of an epoch not known")
    samples = assumed["samples"]["value"] * (epochs if epochs > 0 else assumed["epochs"]["value"])
    if batch is None:
        batch = min(
            assumed["batch_per_device"]["value"] * devices, assumed["batch_per_device"]["most"]
        )
        notes.append(f"global batch of {batch:,.0f}")
    # Assumed: a device has room for four usual batches; what is more goes in passes.
    return (_plan(batch, devices, samples, 4 * assumed["batch_per_device"]["value"]),), notes


def _batch(text: str) -> float | None:
    """A global batch as tables write it: 8192, 34K-68K (the geometric mean), nothing.

    Raises DpsimError for one that no table has.
    """
    numbers = [
        float(digits) * (1024 if unit else 1)
        for digits, unit in re.findall(r"(\d+(?:\.\d+)?)\s*([kK]?)", text)
    ]
    if not numbers:
        return None
    if max(numbers) > _MOST_SAMPLES:
        raise DpsimError(f"global batch above {_MOST_SAMPLES:,}")
    return float((numbers[0] * numbers[-1]) ** 0.5)


def _by_reference(
    entry: Mapping[str, Any], devices: int, batch: float | None
) -> tuple[tuple[Plan, ...], list[str]]:
    """Plans with samples to the target from MLPerf's reference points.

    Where no batch is stated, all batches that fit the devices.
    """
    task, most = tasks()[entry["task"]], entry["most_per_device"]
    batches = runs_of(task.name).batches
    fitting = [each for each in batches if devices <= each <= devices * most]
    # Where none of the reference's batches fits the devices, the one nearest to a sample each.
    nearest = min(batches, key=lambda each: abs(each - devices))
    known = [batch] if batch is not None else fitting or [nearest]
    plans = tuple(_plan(each, devices, 0.0, most) for each in known)
    plans = tuple(replace(plan, samples=task.law.samples(plan.global_batch)) for plan in plans)
    what = "samples and batch" if batch is None else "samples"
    return plans, [f"{what} of MLPerf's reference points"]


def _plan(batch: float, devices: int, samples: float, most: int) -> Plan:
    # A share that a device has no room for goes in several passes, as with gradient accumulation.
    own = max(1, round(batch / devices))
    passes = -(-own // most)
    return Plan(max(1, round(own / passes)), passes, devices, samples)

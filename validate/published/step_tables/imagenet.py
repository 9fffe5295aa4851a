"""Rows of imagenet_records.csv as scenarios: the historic ImageNet records, and MLPerf results.

A record is the time of a whole training. The number of steps follows from batch and epochs, for
MLPerf from the reference's convergence points; assumptions are listed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.convergence import tasks
from dpsim.engine import run_scenario
from dpsim.workload import canonical_name
from validate.published.tables.csv_file import NotPredictedError, Row
from validate.published.tables.packaged import constants_file, packaged_rows
from validate.published.tables.published_step import PublishedStep, StepTable, published_step
from validate.published.tables.scenario_files import scenario_of_row
from validate.published.tables.training import known_words, software_in

REQUIRED = (
    "record_id", "who", "model", "hardware", "accelerators", "interconnect", "global_batch",
    "epochs", "time_min",
)  # fmt: skip
IDENTITY = (
    "record_id", "who", "year", "model", "hardware", "accelerators", "interconnect", "global_batch",
    "epochs", "source_status",
)  # fmt: skip
TABLE = "imagenet_records.csv"
SETTINGS = "step_tables/imagenet.yaml"
_MOST_DEVICES = 10**6  # of a record: more must be a typo
_MOST_SAMPLES = 10**9  # of a global batch, likewise


@dataclass(frozen=True, slots=True)
class Plan:
    """A way to run a record.

    Samples of one device per pass, passes, devices, and samples in the training.
    """

    per_device: int
    passes: int
    devices: int
    samples: float

    @property
    def global_batch(self) -> int:
        """Samples per step."""
        return self.per_device * self.passes * self.devices

    @property
    def steps(self) -> float:
        """Steps of the training."""
        return self.samples / self.global_batch


def read(row: Row) -> PublishedStep:
    """Return the row by its fastest plan; raises NotPredictedError if it cannot be predicted."""
    steps = read_plans(row)
    return steps[0] if len(steps) == 1 else min(steps, key=_ends)


def _ends(step: PublishedStep) -> float:
    """Return the seconds of the whole training."""
    return (step.steps or 1.0) * run_scenario(scenario_of_row(step.scenario)).step_time


def read_plans(row: Row) -> list[PublishedStep]:
    """Return the step of each way to run a row: one where it states a batch, else several.

    Raises NotPredictedError, in words for the user, where the hardware or the length of the
    training cannot be determined.
    """
    settings = constants_file(SETTINGS)
    hardware = _first(settings["hardware"], row.text("hardware"))
    if hardware is None:
        raise NotPredictedError(f"hardware not known: {row.text('hardware')}")
    model, text = _model(row.text("model")), row.joined("record_id", "who", "source").casefold()
    count = row.number("accelerators")
    if count is None or not 1 <= count <= _MOST_DEVICES:
        raise NotPredictedError(f"number of accelerators not stated, or above {_MOST_DEVICES:,}")
    devices, notes = _devices(hardware, row.text("hardware"), int(count))
    cluster, cluster_notes = _cluster(hardware, row, devices)
    mlperf, precision = "mlperf" in text, hardware["precision"]
    plans, plan_notes = _plans(row, model, devices, mlperf=mlperf)
    software = software_in(text) if mlperf else settings["software"]
    assumed, length = settings["assumed"], settings["mlperf"].get(model, {}).get("sequence_length")
    workload = {
        **({"sequence_length": length} if length and mlperf else {}),
        "optimizer": _optimizer(model, row.text("who"), mlperf=mlperf),
        **known_words(software),
    }
    jitter = {"kind": "lognormal", "sigma": assumed["jitter"]["value"]}
    run = {"steps": assumed["steps"]["value"], "warmup": 0, "allow_out_of_memory": True}
    half = precision != "fp32" or devices >= assumed["half_gradients_from"]["value"]
    return [
        published_step(
            row,
            name=row.text("record_id"),
            cluster=cluster,
            workload={
                "model": model,
                "batch_per_gpu": plan.per_device,
                "precision": precision,
                **({"gradient_accumulation": plan.passes} if plan.passes > 1 else {}),
                **workload,
            },
            strategy=_strategy(hardware, half=half),
            beside={"disturbance": {"jitter": jitter}, "run": run},
            measured=row.stated("time_min") * 60 / plan.steps,
            groups=(
                f"suite {'mlperf' if mlperf else 'paper'}",
                f"model {model}",
                f"chip {hardware['chip']}",
            ),
            steps=plan.steps,
            software=software,
            shown={
                "predicted_global_batch": plan.global_batch,
                "predicted_steps": plan.steps,
                "assumed": [*notes, *cluster_notes, *plan_notes, f"precision {precision}"],
            },
        )
        for plan in plans
    ]


def _optimizer(model: str, who: str, *, mlperf: bool) -> str:
    """Return the optimizer: for MLPerf that of its reference points, else the paper's."""
    settings = constants_file(SETTINGS)
    if mlperf and model in settings["mlperf"]:
        return tasks()[settings["mlperf"][model]["task"]].optimizers[0]
    stated = _first(settings["optimizers"], who)
    return "momentum" if stated is None else str(stated["optimizer"])


def _first(entries: Sequence[dict[str, Any]], text: str) -> dict[str, Any] | None:
    """Return the first entry with one of its words in the text."""
    low = text.casefold().replace("_", "-")
    return next((entry for entry in entries if any(word in low for word in entry["words"])), None)


def _model(text: str) -> str:
    try:
        return canonical_name(re.sub(r"\(.*?\)", "", text).strip())
    except DpsimError:
        raise NotPredictedError(f"model not known: {text}") from None


def _devices(hardware: Mapping[str, Any], text: str, count: int) -> tuple[int, list[str]]:
    """Return the number of chips: a row may count cores (two per chip) or boards of chips."""
    if "cores" in hardware and "core" in text.casefold():
        return max(1, count // hardware["cores"]), [f"{hardware['cores']} cores a chip"]
    if "chips" in hardware:
        return count * hardware["chips"], [f"{hardware['chips']} chips a board"]
    return count, []


def _cluster(
    hardware: Mapping[str, Any], row: Row, devices: int
) -> tuple[dict[str, Any], list[str]]:
    settings = constants_file(SETTINGS)
    text = f"{row.text('hardware')} {row.text('interconnect')}"
    system = _first(settings["systems"], text)
    link = _first(settings["links"], row.text("interconnect"))
    # The row's own statement comes before the system's usual value, and that before the chip's.
    stated = re.search(r"(\d+)[- ]GPUs?\b", text)
    per_node = int(stated[1]) if stated else (system or hardware)["per_node"]
    per_node = min(per_node, devices, hardware["per_node"])
    gpu = settings["gpus"].get(hardware["gpu"], hardware["gpu"])
    torus = hardware.get("algorithm") == "torus-2d"
    network: dict[str, Any] = {"fabric": "torus" if torus else "single-switch"}
    nic = link["nic"] if link else hardware.get("nic")
    if nic:
        cards = re.search(r"(\d+)x IB", text)
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


def _strategy(hardware: Mapping[str, Any], *, half: bool) -> dict[str, Any]:
    how = "algorithm" if "algorithm" in hardware else "library"
    aggregation = {"kind": "allreduce", how: hardware.get(how, "nccl")}
    return {"aggregation": aggregation, "compression": {"kind": "cast" if half else "none"}}


def _plans(
    row: Row, model: str, devices: int, *, mlperf: bool
) -> tuple[tuple[Plan, ...], list[str]]:
    """Return the ways to run the row, with the assumptions made."""
    settings = constants_file(SETTINGS)
    batch, epochs = _batch(row.text("global_batch")), row.number("epochs")
    if mlperf and epochs is None:
        if model not in settings["mlperf"]:
            raise NotPredictedError(f"epochs not stated, and no reference points known of {model}")
        return _by_reference(settings["mlperf"][model], devices, batch)
    assumed = settings["assumed"]
    notes = [] if epochs else [f"{assumed['epochs']['value']} epochs"]
    if model.startswith("bert"):
        raise NotPredictedError("samples of an epoch not known")
    samples = assumed["samples"]["value"] * (epochs or assumed["epochs"]["value"])
    usual = assumed["batch_per_device"]
    if batch is None:
        batch = min(usual["value"] * devices, usual["most"])
        notes.append(f"global batch of {batch:,.0f}")
    # Assume room for four usual batches per device; larger shares take several passes.
    return (_plan(batch, devices, samples, 4 * usual["value"]),), notes


def _batch(text: str) -> float | None:
    """Return a global batch as tables write it: 8192, 34K-68K (the geometric mean), nothing.

    Raises NotPredictedError for a batch too large to be plausible.
    """
    numbers = [
        float(digits) * (1024 if unit else 1)
        for digits, unit in re.findall(r"(\d+(?:\.\d+)?)\s*([kK]?)", text)
    ]
    if not numbers:
        return None
    if max(numbers) > _MOST_SAMPLES:
        raise NotPredictedError(f"global batch above {_MOST_SAMPLES:,}")
    return float((numbers[0] * numbers[-1]) ** 0.5)


def _by_reference(
    entry: Mapping[str, Any], devices: int, batch: float | None
) -> tuple[tuple[Plan, ...], list[str]]:
    """Return plans with samples to the target from MLPerf's reference points.

    Where no batch is stated, there is a plan for each batch that fits the devices.
    """
    task, most = tasks()[entry["task"]], entry["most_per_device"]
    points = packaged_rows("mlperf_reference_points.csv")
    of_task = [point for point in points if point.text("case_id") == entry["case"]]
    batches = [point.positive("global_batch") for point in of_task if point.text("quality") == "ok"]
    if not batches:
        raise NotPredictedError("MLPerf's reference points were not installed with the package")
    fitting = [each for each in batches if devices <= each <= devices * most]
    # If none of the reference's batches fits the devices, take the one nearest to one sample each.
    nearest = min(batches, key=lambda each: abs(each - devices))
    known = [batch] if batch is not None else fitting or [nearest]
    plans = tuple(_plan(each, devices, 0.0, most) for each in known)
    plans = tuple(replace(plan, samples=task.law.samples(plan.global_batch)) for plan in plans)
    what = "samples and batch" if batch is None else "samples"
    return plans, [f"{what} of MLPerf's reference points"]


def _plan(batch: float, devices: int, samples: float, most: int) -> Plan:
    # A share that does not fit a device takes several passes, as with gradient accumulation.
    own = max(1, round(batch / devices))
    passes = -(-own // most)
    return Plan(max(1, round(own / passes)), passes, devices, samples)


STEP_TABLE = StepTable(REQUIRED, IDENTITY, lambda rows: read)

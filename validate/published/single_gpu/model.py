"""Step time on one GPU from a model's work per sample and from what computes it.

    products = 3 x 2 gmac b (1 - q + q / winograd) / (e_kind,precision peak)
    memory = (passes elements b bytes + (4 + (w - 4) / n) params) / (e_m B)
    device = speed clock (products + memory)
    host   = h_framework tensors + h_step + serial steps
    step   = (device^p + host^p)^(1/p)

q: share of the products in 3x3 and 5x5 convolutions, done by Winograd in fp32. n: micro-batches
a step of the optimiser, where a row is the time of one. Forward alone
(inference): 2 gmac b, fewer passes, no optimiser, a share of the host time. Products run at the
peak of the precision that the GPU has: mixed precision on GPUs without tensor cores saves bytes
only, and recurrences never run in TF32. Elements have 4 bytes, half_bytes in mixed precision; XLA
fuses passes. Seconds, bytes, FLOP.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsim.base.arrays import BoolArray, FloatArray, IntArray
from dpsim.base.errors import DpsimError
from dpsim.base.units import RATE, SPEED, human
from dpsim.hardware import Gpu, Precision, gpu_named_in
from dpsim.workload import WITHOUT_TENSOR_CORES, is_throttled
from validate.published.single_gpu.features import FEATURES, entry_of, features
from validate.published.tables import (
    Block,
    Columns,
    TextArray,
    constants_file,
    fit_blocks,
    numbers_of,
    soft_maximum,
)

TRAIN_MODES = ("train",)
FORWARD_MODES = ("inference", "eval")
# A row that times one of several passes says so in its notes alone.
_ACCUMULATION = re.compile(r"accumulation (\d+) micro batches per optimizer step")


@dataclass(frozen=True)
class SingleGpuParameters:
    """Shares of peak per kind and precision, global values, effects of frameworks and GPUs."""

    efficiency: Mapping[str, float]
    values: Mapping[str, float]
    errors: Mapping[str, float]
    speed: Mapping[str, float]
    host: Mapping[str, float]
    clock: Mapping[str, float]


@dataclass(frozen=True)
class Work:
    """One row per measurement: work per step (SI) and the peaks that serve it."""

    flops: FloatArray
    square: FloatArray
    elements: FloatArray
    weights: FloatArray
    passes: FloatArray
    tensors: FloatArray
    serial: FloatArray
    train: BoolArray
    half: BoolArray
    fused: BoolArray
    throttled: BoolArray
    peak: FloatArray
    memory: FloatArray
    efficiency: tuple[str, ...]
    framework: tuple[str, ...]
    gpu: tuple[str, ...]


def obstacles(rows: Columns) -> TextArray:
    """Why a row cannot be predicted or scored, in words; empty where it can."""
    table = constants_file(FEATURES)
    families = [table[name] for name in ("transformer", "convolution", "recurrent", "embedding")]
    unknown = [
        all(entry_of(str(model), family) is None for family in families)
        for model in rows.text("model")
    ]
    no_gpu = [gpu_named_in(str(gpu)) is None for gpu in rows.text("gpu")]
    mode = ~np.isin(rows.text("mode"), TRAIN_MODES + FORWARD_MODES)
    untimed = np.isnan(rows.above_zero("step_time_ms")) & np.isnan(rows.above_zero("throughput"))
    tokens = np.char.startswith(rows.text("unit"), "tokens") & np.isnan(rows.above_zero("batch"))
    out = np.full(len(rows), "", dtype="<U80")
    # What is written last stays: of several obstacles the most telling one.
    for bad, words in (
        (tokens, "tokens per second without a batch"),
        (untimed, "neither step time nor throughput"),
        (mode, f"mode must be one of {', '.join(TRAIN_MODES + FORWARD_MODES)}"),
        (np.array(no_gpu, dtype=np.bool_), "no data sheet of this GPU"),
        (np.array(unknown, dtype=np.bool_), "no layers of this model"),
    ):
        out[bad] = words
    return out


def known(rows: Columns) -> BoolArray:
    """Which rows can be predicted and scored."""
    return np.asarray(obstacles(rows) == "")


def peak_of(name: str) -> float | None:
    """Dense fp32 peak in FLOP/s of a GPU, however written; None for an unknown one."""
    gpu = gpu_named_in(name)
    return None if gpu is None else gpu.peak["fp32"].value


def figures_of(gpu: Gpu) -> str:
    """What GPUs that share an effect of their own have in common.

    Those that differ only in the size of their memory or in their form, such as the V100 with 16
    and with 32 GB, are one GPU to the fit.
    """
    return (
        f"{gpu.architecture} {human(gpu.peak['fp32'].value, SPEED)} "
        f"{human(gpu.memory_bandwidth.value, RATE)}"
    )


def products_in(text: str, gpu: Gpu) -> tuple[Precision, bool]:
    """Returns (precision of the products, whether elements are halved).

    Without tensor cores, mixed precision halves what is stored and computes in fp32.
    """
    if text.casefold().startswith(("amp", "fp16", "bf16", "mixed")):
        fast = "fp16" in gpu.peak and gpu.architecture not in WITHOUT_TENSOR_CORES
        return ("fp16" if fast else "fp32"), True
    return ("tf32" if "tf32" in text.casefold() and "tf32" in gpu.peak else "fp32"), False


def passes_of(rows: Columns) -> FloatArray:
    """How many micro-batches each row's optimiser waits for; 1 where its notes say nothing."""
    found = [_ACCUMULATION.search(notes) for notes in rows.text("notes").tolist()]
    return np.array([float(match[1]) if match else 1.0 for match in found])


def _of_a_sample(feature: Mapping[str, float], precision: Precision) -> dict[str, float]:
    return {
        "flops": feature["gmac"] * 2e9,
        "square": feature.get("square", 0.0) * (precision == "fp32"),
        "elements": feature["elements_m"] * 1e6 * feature["passes"],
        "weights": feature["params_m"] * 1e6,
        "tensors": feature["tensors"],
        "serial": feature["serial_steps"],
    }


def _of_a_gpu(gpu: Gpu, precision: Precision) -> dict[str, float]:
    return {
        "peak": gpu.peak[precision].value,
        "memory": gpu.memory_bandwidth.value,
        "throttled": is_throttled(gpu.power.value if gpu.power else None),
    }


def work_of(rows: Columns) -> Work:
    """Reads model, gpu, framework, precision, mode, batch, seq_len."""
    table, constants = constants_file(FEATURES), constants_file("single_gpu/settings.yaml")
    batch = np.nan_to_num(rows.above_zero("batch"), nan=float(constants["batch_unknown"]["value"]))
    numbers: dict[str, list[float]] = {}
    kinds: list[str] = []
    gpus: list[str] = []
    cells = zip(
        rows.text("model").tolist(),
        rows.numbers("seq_len").tolist(),
        rows.text("gpu").tolist(),
        rows.text("precision").tolist(),
        strict=True,
    )
    for model, sequence, gpu_name, precision_text in cells:
        kind, feature = features(model, sequence, table)
        gpu = gpu_named_in(gpu_name)
        if gpu is None:
            raise DpsimError(f"no data sheet of GPU {gpu_name!r} in the catalogue")
        precision, half = products_in(precision_text, gpu)
        if kind == "rnn" and precision == "tf32":
            precision = "fp32"  # cuDNN's recurrences stay in fp32
        row = {**_of_a_sample(feature, precision), **_of_a_gpu(gpu, precision), "half": half}
        for name, value in row.items():
            numbers.setdefault(name, []).append(float(value))
        kinds.append(f"{kind}_{precision}")
        gpus.append(figures_of(gpu))
    columns: dict[str, Any] = {name: np.array(values) for name, values in numbers.items()}
    # Of a sample so far; weights and tensors are as many whatever the batch.
    columns["flops"] *= batch
    columns["elements"] *= batch
    for name in ("half", "throttled"):
        columns[name] = columns[name] > 0
    return Work(
        **columns,
        passes=passes_of(rows),
        train=np.isin(rows.text("mode"), TRAIN_MODES),
        fused=_fused(rows),
        efficiency=tuple(kinds),
        framework=tuple(rows.text("framework").tolist()),
        gpu=tuple(gpus),
    )


def _fused(rows: Columns) -> BoolArray:
    """Which rows say, of their framework or beside their precision, that XLA compiled them."""
    cells = zip(rows.text("framework").tolist(), rows.text("precision").tolist(), strict=True)
    return np.array(["xla" in " ".join(texts).casefold() for texts in cells], dtype=np.bool_)


def step_seconds(work: Work, v: Mapping[str, FloatArray], backward: float) -> FloatArray:
    """Step seconds per row; formula in the module's docstring."""
    # Effects multiply times, so that a share of the clock divides.
    clock = v["clock"] * np.where(work.throttled, 1.0 / v["throttle"], 1.0)
    rounds = np.where(work.train, 1.0 + backward, 1.0)
    rate = v["efficiency"] * work.peak
    products = work.flops * rounds / rate * clock
    saved = 1.0 - work.square + work.square / v["winograd"]
    products = products * saved

    passes = np.where(work.train, v["train_passes"], v["forward_passes"])
    passes = passes * np.where(work.fused, v["fusion"], 1.0)
    moved = passes * work.elements * np.where(work.half, v["half_bytes"], 4.0)
    # Every pass reads the weights; what the optimiser moves comes once in all its passes.
    update = np.where(work.train, v["optimizer_bytes"] - 4.0, 0.0) / work.passes
    moved = moved + work.weights * (4.0 + update)
    # Throttling lowers the cores' clock; memory keeps its own, and only the GPU's effect is on it.
    memory = moved / (v["memory"] * work.memory) * v["clock"]
    device = v["speed"] * (products + memory)

    # Inference launches no backward pass and no update.
    share = np.where(work.train, 1.0, v["forward_host"])
    # A recurrence waits for each of its steps: once forward, twice backward.
    serial = v["serial_step"] * work.serial * np.where(work.train, 3.0, 1.0)
    host = (v["host"] * work.tensors + v["step_host"]) * share + serial
    return soft_maximum(device, host, v["norm"])


def measured_seconds(rows: Columns) -> FloatArray:
    """Measured step seconds; where only a throughput stands, the (assumed) batch over it."""
    batch = np.nan_to_num(
        rows.above_zero("batch"),
        nan=float(constants_file("single_gpu/settings.yaml")["batch_unknown"]["value"]),
    )
    step = rows.above_zero("step_time_ms") * 1e-3
    return np.where(np.isnan(step), batch / rows.above_zero("throughput"), step)


def _grouped(names: tuple[str, ...]) -> tuple[list[str], IntArray]:
    known_names = sorted(set(names))
    places = [known_names.index(name) for name in names]
    return known_names, np.array(places, dtype=np.int64)


def _centre(name: str, member: str, constants: Mapping[str, Any]) -> float:
    """The prior of a framework's or GPU's effect.

    Compiled graphs cost less host time than eager code.
    """
    words = constants["graph_host"]["words"] if name == "host" else ()
    compiled = any(word in member.casefold() for word in words)
    return float(constants["graph_host" if compiled else name]["value"])


def _blocks(
    groups: Mapping[str, tuple[list[str], IntArray]], constants: Mapping[str, Any], rows: int
) -> list[Block]:
    """The unknowns: global values, then shares of peak, then effects of frameworks and GPUs."""
    blocks = []
    zero: IntArray = np.zeros(rows, dtype=np.int64)
    for name, entry in constants["global"].items():
        value, spread = np.array([float(entry["value"])]), np.array([float(entry["spread"])])
        blocks.append(Block(name, value, spread, zero))

    kinds, kind_rows = groups["efficiency"]
    entries = [constants["efficiency"][name] for name in kinds]
    values = np.array([float(entry["value"]) for entry in entries])
    spreads = np.array([float(entry["spread"]) for entry in entries])
    blocks.append(Block("efficiency", values, spreads, kind_rows))

    for group, name in (("framework", "speed"), ("framework", "host"), ("gpu", "clock")):
        names, index = groups[group]
        centres = np.array([_centre(name, member, constants[group]) for member in names])
        spreads = np.full(len(names), float(constants[group][name]["spread"]))
        blocks.append(Block(name, centres, spreads, index))
    return blocks


def _weights(rows: Columns) -> FloatArray:
    """The weight of each row, so that no model counts as more than 20 rows of others.

    The tables hold ten times as many rows of ResNet-50 as of most others.
    """
    models, model_rows = _grouped(tuple(str(model) for model in rows.text("model")))
    count = np.bincount(model_rows, minlength=len(models))
    # Weights stand inside the squares: the root makes a model's rows sum to 20.
    weights = np.minimum(np.sqrt(20.0 / count), 1.0)
    return np.asarray(weights[model_rows])


def fit(rows: Columns) -> SingleGpuParameters:
    """Fits efficiencies, framework and GPU effects to rows of known models.

    Each model weighs as much as another.
    """
    constants = constants_file("single_gpu/settings.yaml")
    rows = rows.where(known(rows))
    work, measured = work_of(rows), measured_seconds(rows)
    groups = {
        "efficiency": _grouped(work.efficiency),
        "gpu": _grouped(work.gpu),
        "framework": _grouped(work.framework),
    }
    backward = float(constants["backward"]["value"])
    result = fit_blocks(
        _blocks(groups, constants, len(rows)),
        lambda v: step_seconds(work, v, backward),
        measured,
        float(constants["noise"]["value"]),
        _weights(rows),
        elementwise=True,
    )

    def named(block: str, group: str) -> dict[str, float]:
        return dict(zip(groups[group][0], result.values[block].tolist(), strict=True))

    single = list(constants["global"])
    return SingleGpuParameters(
        named("efficiency", "efficiency"),
        {name: float(result.values[name][0]) for name in single},
        {name: float(result.spreads[name][0]) for name in single},
        named("speed", "framework"),
        named("host", "framework"),
        named("clock", "gpu"),
    )


def predict(rows: Columns, parameters: SingleGpuParameters) -> FloatArray:
    """Predicts step seconds; kinds, frameworks and GPUs never seen take their priors."""
    constants = constants_file("single_gpu/settings.yaml")
    work = work_of(rows)
    v = {name: np.full(len(rows), value) for name, value in parameters.values.items()}
    prior = numbers_of(constants["efficiency"])
    v["efficiency"] = np.array([parameters.efficiency.get(k, prior[k]) for k in work.efficiency])
    for name, table in (("speed", parameters.speed), ("host", parameters.host)):
        # A framework that no row has takes the prior: that of its like, compiled or eager.
        priors = {each: _centre(name, each, constants["framework"]) for each in work.framework}
        v[name] = np.array([table.get(each, priors[each]) for each in work.framework])
    v["clock"] = np.array([parameters.clock.get(g, 1.0) for g in work.gpu])
    return step_seconds(work, v, float(constants["backward"]["value"]))

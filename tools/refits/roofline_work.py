"""What the one-GPU training rows ask of their GPUs: layers and passes of all rows, as vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dpsim.base.arrays import BoolArray, FloatArray, IntArray
from dpsim.base.errors import DpsimError
from dpsim.hardware import Gpu, Precision, gpu_named_in
from dpsim.workload import Model, build_model, is_throttled, is_winograd
from tools.refits.one_gpu_rows import figures_of, products_in
from validate.published.tables import Columns

CLASSES, PRECISIONS = ("conv", "gemm", "rnn"), ("fp32", "tf32", "half")  # recurrences run no tf32
FRACTIONS = tuple(f"{kind}_{precision}" for kind in CLASSES for precision in PRECISIONS)

# Beginnings of the tables' names, longest first where one begins another, and the catalogue's.
CATALOGUE = {
    "alexnet": "alexnet", "vgg-16 (cifar": "vgg16-cifar", "vgg-16": "vgg16",
    "resnet-50": "resnet50", "resnet-152": "resnet152", "resnet-18": "resnet18-cifar",
    "inception-v3": "inception-v3", "densenet-161": "densenet161", "ssd300": "ssd300",
    "yolov3": "yolov3-voc", "neumf": "neumf-ml1m", "bert-base": "bert-base",
    "bert-large": "bert-large", "deepspeech2": "deepspeech2",
    "transformer-xl base": "transformer-xl-base", "transformer-xl large": "transformer-xl-large",
}  # fmt: skip
_LONGER = {"bert-base squad": 384, "bert-large squad": 384}  # tokens where the table states none


def catalogue_name(model: str) -> str | None:
    """The catalogue's name of a table's model; None where it has none."""
    return next(
        (known for start, known in CATALOGUE.items() if model.casefold().startswith(start)), None
    )


def usable(rows: Columns) -> Columns:
    """Training rows of models in the catalogue."""
    known = np.array(
        [catalogue_name(model) is not None for model in rows.text("model").tolist()], dtype=np.bool_
    )
    return rows.where(known & (rows.text("mode") == "train"))


@cache
def layers(name: str, tokens: int) -> Model:
    """The model for sequences of so many tokens, of its usual length where it has no choice."""
    # Pictures have no tokens: their models refuse to be asked for some.
    try:
        return build_model(name, tokens or None)
    except DpsimError:
        return build_model(name)


def tokens_of(model: str, stated: float) -> int:
    """Tokens of a sample; 0 for the model's usual number."""
    if not np.isnan(stated):
        return int(stated)
    return next(
        (tokens for start, tokens in _LONGER.items() if model.casefold().startswith(start)), 0
    )


@dataclass(frozen=True)
class Work:
    """All layers and passes of all rows, one after the other, and what belongs to whole rows.

    ``row`` says whose each is.
    """

    # One number for each pass of each layer of each row.
    row: IntArray
    flop: FloatArray
    traffic: FloatArray
    kernels: FloatArray
    ramps: FloatArray
    square: BoolArray
    product: BoolArray
    fraction: IntArray
    lost: FloatArray
    # One for each row, whose passes begin at its start.
    starts: IntArray
    peak: FloatArray
    memory: FloatArray
    half: BoolArray
    fused: BoolArray
    throttled: BoolArray
    tensors: FloatArray
    parameters: FloatArray
    names: Mapping[str, tuple[str, ...]]


@cache
def _vectors(name: str, tokens: int) -> dict[str, FloatArray]:
    """What the layers of a model do, forward and then backward, per sample and per pass."""
    model = layers(name, tokens)
    steps, flop, back = (
        model.vector(amount) for amount in ("steps", "forward_flop", "backward_flop")
    )
    own, traffic = model.vector("own_weights"), model.vector("backward_traffic")
    used = own + model.vector("borrowed")
    # Of an embedding only the rows looked up are read, but all of its gradient is written.
    is_table = np.array([layer.kind == "embedding" for layer in model.layers])
    read, written = np.where(is_table, 0, used), np.where(is_table, own, used)
    # Products of a backward pass: one for the weights, one for the inputs where they are needed.
    gradients = np.where(flop > 0, back / np.maximum(flop, 1), traffic > 0)
    is_convolution = np.array([layer.kind == "conv" for layer in model.layers])
    both_ways = {
        "square": np.array([is_winograd(layer) for layer in model.layers]),
        "product": flop > 0,
        "kind": np.where(steps > 1, 2, np.where(is_convolution, 0, 1)),  # a place in CLASSES
    }
    vectors = {
        "flop": np.concatenate([flop, back]),
        "traffic": np.concatenate([model.vector("forward_traffic"), traffic]),
        "weights": np.concatenate([read, read * (gradients > 1) + written]),
        "kernels": np.concatenate([steps, gradients * steps]),
    }
    for key, value in both_ways.items():
        vectors[key] = np.concatenate([value, value]).astype(float)
    return vectors


def work_of(rows: Columns) -> Work:
    """Reads model, gpu, framework, precision, batch and seq_len."""
    texts = [rows.text(name).tolist() for name in ("model", "gpu", "framework", "precision")]
    names: dict[str, list[str]] = {"generation": [], "gpu": [], "framework": texts[2]}
    # By the names of Work's fields, each row's after the last's.
    of_layers: dict[str, list[FloatArray]] = {}
    of_rows: dict[str, list[float]] = {}
    batches = np.nan_to_num(rows.above_zero("batch"), nan=128.0)
    sequences = rows.numbers("seq_len")
    for i, (name, gpu_name, framework, text) in enumerate(zip(*texts, strict=True)):
        gpu = gpu_named_in(gpu_name)
        assert gpu is not None
        precision, half = products_in(text, gpu)
        key, tokens = catalogue_name(name) or "", tokens_of(name, float(sequences[i]))
        made = _layers_of_a_row(_vectors(key, tokens), gpu, precision, batches[i])
        for part, vector in made.items():
            of_layers.setdefault(part, []).append(vector)
        of_layers.setdefault("row", []).append(np.full(len(made["flop"]), float(i)))
        model = layers(key, tokens)
        row = {
            "peak": gpu.peak[precision].value,
            "memory": gpu.memory_bandwidth.value,
            "half": half,
            "fused": "xla" in f"{framework} {text}".casefold(),
            "throttled": is_throttled(gpu.power.value if gpu.power else None),
            "tensors": len(model.tensors.elements),
            "parameters": model.parameters,
        }
        for part, value in row.items():
            of_rows.setdefault(part, []).append(float(value))
        names["generation"].append(gpu.architecture)
        names["gpu"].append(figures_of(gpu))
    flat = {part: np.concatenate(vectors) for part, vectors in of_layers.items()}
    whole = {part: np.array(values) for part, values in of_rows.items()}
    # All were gathered as floats.
    found: dict[str, Any] = flat | whole
    for part in ("square", "product", "half", "fused", "throttled"):
        found[part] = found[part] > 0
    for part in ("row", "fraction"):
        found[part] = found[part].astype(np.int64)
    return Work(
        **found,
        starts=np.searchsorted(flat["row"], np.arange(len(rows))),
        names={group: tuple(members) for group, members in names.items()},
    )


def _layers_of_a_row(
    vectors: Mapping[str, FloatArray], gpu: Gpu, precision: Precision, batch: float
) -> dict[str, FloatArray]:
    """The passes of one row's layers over a batch in a precision of a GPU."""
    column = ("fp32", "tf32", "fp16").index(precision)
    recurrent = vectors["kind"] == 2
    columns = np.where(recurrent & (column == 1), 0, column)  # cuDNN's recurrences stay in fp32
    fp32 = gpu.peak["fp32"]
    # A row's rate is that of its precision; what stays in fp32 reaches this share of it.
    slower = fp32.value / gpu.peak.get("tf32", fp32).value
    return {
        "flop": vectors["flop"] * batch,
        "traffic": vectors["traffic"] * batch + vectors["weights"],
        "kernels": vectors["kernels"],
        "ramps": vectors["kernels"] * vectors["product"],
        "square": vectors["square"] * (precision == "fp32"),
        "product": vectors["product"],
        "fraction": 3 * vectors["kind"] + columns,
        "lost": np.where(columns == column, 1.0, slower),
    }

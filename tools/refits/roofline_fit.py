"""Fits the constants of the simulator's roofline on public one-GPU training rows.

    device = sum over layers and passes of
                 max(FLOP / (fraction peak speed) + ramp, bytes / (memory B)) x framework x GPU
    host   = launch x kernels
    update = max(update bytes / (memory B), launch x update kernels)
    step   = (device^p + host^p)^(1/p) + update + per step

over the layer tables of `dpsim.workload`. Frameworks and single GPUs have effects of their own,
which are not written. Each model counts as much as another from 20 rows on. Run ``python -m
tools.refits.roofline_fit`` after a change of models or rows: it writes
``dpsim/workload/efficiency.yaml``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import dpsim.workload
from dpsim.base.arrays import BoolArray, FloatArray, IntArray
from dpsim.base.errors import DpsimError
from dpsim.hardware import Gpu, Precision, gpu_named_in
from dpsim.workload import Model, build_model, is_throttled, is_winograd, update_bytes
from validate.published.single_gpu import (
    REQUIRED,
    TABLE,
    figures_of,
    fit_rows,
    measured_seconds,
    products_in,
)
from validate.published.tables import (
    Block,
    Columns,
    FitResult,
    fit_blocks,
    packaged_table,
    soft_maximum,
)

PRIORS = Path(__file__).with_name("roofline.yaml")
HEADER = (
    "# Written by `python -m tools.refits.roofline_fit`: what it is and how far to trust it, "
    "dpsim/workload/efficiency.py.\n"
    "# SI units; error: relative standard error of the fit.\n"
)
CLASSES, PRECISIONS = ("conv", "gemm", "rnn"), ("fp32", "tf32", "half")  # recurrences run no tf32
FRACTIONS = tuple(f"{kind}_{precision}" for kind in CLASSES for precision in PRECISIONS)

# Most of the tables' runs are Adam, LAMB or momentum; the update is a few percent.
_UPDATE_BYTES = update_bytes("adam")

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


@cache
def priors_file() -> dict[str, Any]:
    """What is known of the constants before the fit."""
    from ruamel.yaml import YAML

    loaded: dict[str, Any] = YAML(typ="safe", pure=True).load(PRIORS.read_text(encoding="utf-8"))
    return loaded


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
            "tensors": len(model.tensors().elements),
            "parameters": model.parameters,
        }
        for part, value in row.items():
            of_rows.setdefault(part, []).append(float(value))
        names["generation"].append(gpu.architecture)
        names["gpu"].append(figures_of(gpu))
    flat = {part: np.concatenate(vectors) for part, vectors in of_layers.items()}
    whole = {part: np.array(values) for part, values in of_rows.items()}
    return Work(
        row=flat["row"].astype(np.int64),
        flop=flat["flop"],
        traffic=flat["traffic"],
        kernels=flat["kernels"],
        ramps=flat["ramps"],
        square=flat["square"] > 0,
        product=flat["product"] > 0,
        fraction=flat["fraction"].astype(np.int64),
        lost=flat["lost"],
        starts=np.searchsorted(flat["row"], np.arange(len(rows))),
        peak=whole["peak"],
        memory=whole["memory"],
        half=whole["half"] > 0,
        fused=whole["fused"] > 0,
        throttled=whole["throttled"] > 0,
        tensors=whole["tensors"],
        parameters=whole["parameters"],
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


def step_seconds(work: Work, v: Mapping[str, FloatArray], sharpness: float) -> FloatArray:
    """Step seconds per row; formula in the module's docstring."""
    row, bandwidth = work.row, v["memory"] * work.memory
    width = np.where(work.half, v["half_width"], 4.0)
    kept = np.where(work.product, 1.0, np.where(work.fused, v["fusion"], 1.0)[row])

    fractions = np.array([v[name][0] for name in FRACTIONS])
    saved = np.where(work.square, v["winograd"][0], 1.0)
    rate = work.peak * v["generation"] * np.where(work.throttled, v["throttle"], 1.0)
    products = (
        work.flop / (fractions[work.fraction] * saved * work.lost * rate[row])
        + work.ramps * v["ramp"][0]
    )
    passes = np.maximum(products * work.product, work.traffic * kept * (width / bandwidth)[row])
    # From one number a pass of a layer to one a row: those of a row stand together.
    device = np.add.reduceat(passes, work.starts) * v["speed"] * v["gpu"]
    host = v["launch"] * np.add.reduceat(work.kernels, work.starts)
    update = np.maximum(
        _UPDATE_BYTES * work.parameters / bandwidth,
        v["launch"] * v["update_launches"] * work.tensors,
    )
    return soft_maximum(device, host, sharpness) + update + v["step"]


def _prior_launch(framework: str, priors: Mapping[str, Any]) -> float:
    graph = any(word in framework.casefold() for word in priors["graph_words"])
    return float(priors["launch"]["graph" if graph else "eager"]["value"])


def _blocks(work: Work, count: int, priors: Mapping[str, Any]) -> list[Block]:
    zero: IntArray = np.zeros(count, dtype=np.int64)
    single = {**priors["fractions"], **priors["constants"], "fusion": priors["fusion"]}
    blocks = [
        Block(n, np.array([float(e["value"])]), np.array([float(e["spread"])]), zero)
        for n, e in single.items()
    ]
    for name, group in (
        ("generation", "generation"),
        ("gpu", "gpu"),
        ("speed", "framework"),
        ("launch", "framework"),
    ):
        members = sorted(set(work.names[group]))
        index = np.array([members.index(member) for member in work.names[group]], dtype=np.int64)
        if name == "launch":
            centre, spread = (
                [_prior_launch(member, priors) for member in members],
                float(priors["launch"]["eager"]["spread"]),
            )
        else:
            centre, spread = [1.0] * len(members), float(priors[name]["spread"])
        blocks.append(Block(name, np.array(centre), np.full(len(members), spread), index))
    return blocks


def fit(rows: Columns) -> tuple[Work, FitResult, FloatArray]:
    """Fits the constants to `usable` rows.

    Returns the work, the values, and the fitted step seconds.
    """
    priors = priors_file()
    work, measured = work_of(rows), measured_seconds(rows)
    blocks = _blocks(work, len(rows), priors)
    models = rows.text("model").tolist()
    # The root: weights multiply residuals, and it is their squares that add up.
    weights = np.array([min((20.0 / models.count(model)) ** 0.5, 1.0) for model in models])
    sharpness = float(priors["sharpness"]["value"])

    result = fit_blocks(
        blocks,
        lambda v: step_seconds(work, v, sharpness),
        measured,
        float(priors["noise"]["value"]),
        weights,
    )
    fitted = step_seconds(
        work, {block.name: result.values[block.name][block.rows] for block in blocks}, sharpness
    )
    return work, result, fitted


def _usual_of(
    result: FitResult, frameworks: Sequence[str], wanted: Sequence[str], meaning: str
) -> dict[str, Any]:
    """The launch cost and the speed of the middle one of some frameworks.

    These are the frameworks whose names have one of the ``wanted`` words.
    """

    def middle(name: str, among: Sequence[int], unit: str, meaning: str) -> dict[str, Any]:
        logs = np.log(result.values[name][among])
        value, error = float(f"{np.exp(np.median(logs)):.3g}"), float(f"{np.std(logs):.2g}")
        return {"value": value, "error": error, "unit": unit, "meaning": meaning}

    among = [
        i for i, name in enumerate(frameworks) if any(word in name.casefold() for word in wanted)
    ]
    launch = f"{meaning}; median of {len(among)} frameworks, error: their spread"
    usual = (
        "seconds on the GPU against the mean of all rows; "
        "median of frameworks, AdaptDL's instrumented runs apart"
    )
    plain = [i for i in among if "adaptdl" not in frameworks[i].casefold()]
    return {
        "launch": middle("launch", among, "s", launch),
        "usual": middle("speed", plain, "1", usual),
    }


def constants_of(work: Work, result: FitResult) -> dict[str, Any]:
    """The content of efficiency.yaml."""
    priors = priors_file()

    def entry(name: str, at: int = 0, **words: str) -> dict[str, Any]:
        value, error = float(result.values[name][at]), float(result.spreads[name][at])
        return {"value": float(f"{value:.4g}"), "error": float(f"{error:.2g}"), **words}

    def described(name: str, prior: Mapping[str, str]) -> dict[str, Any]:
        return entry(name, unit=prior["unit"], meaning=prior["meaning"])

    fractions: dict[str, Any] = {name: entry(name, unit="1") for name in FRACTIONS}
    for kind in CLASSES:
        half = fractions[f"{kind}_half"]["value"]
        fractions[f"{kind}_fp8"] = {
            "value": half,
            "error": 0.3,
            "unit": "1",
            "meaning": "as half; no row to fit it on",
        }

    generations = sorted(set(work.names["generation"]))
    frameworks = sorted(set(work.names["framework"]))
    wanted = {"eager": ["pytorch"], "graph": priors["graph_words"]}
    launches = {
        how: _usual_of(result, frameworks, words, priors["launch"][how]["meaning"])
        for how, words in wanted.items()
    }

    launches["eager"]["fusion"] = {
        "value": 1.0,
        "error": 0.0,
        "unit": "1",
        "meaning": "nothing is fused",
    }
    launches["graph"]["fusion"] = described("fusion", priors["fusion"])

    # torch.compile fuses as XLA does; the table has no row of it.
    unfitted = "no row to fit it on"
    launches["compile"] = {
        **{
            name: {**constant, "meaning": f"as eager; {unfitted}"}
            for name, constant in launches["eager"].items()
        },
        "fusion": {**launches["graph"]["fusion"], "error": 0.3, "meaning": f"as graph; {unfitted}"},
    }
    # A prior that no row could move: recurrences run no tf32.
    fractions.pop("rnn_tf32")
    return {
        "fractions": fractions,
        "constants": {name: described(name, prior) for name, prior in priors["constants"].items()},
        "generations": {
            name: entry("generation", i, unit="1") for i, name in enumerate(generations)
        },
        "execution": launches,
    }


def errors(predicted: Sequence[float] | FloatArray, measured: FloatArray) -> dict[str, float]:
    """Absolute percentage errors, as fractions."""
    error = np.abs(np.asarray(predicted) / measured - 1)
    spread = {
        "median": np.median(error),
        "mean": error.mean(),
        "p95": np.percentile(error, 95),
        "worst": error.max(),
    }
    return {"n": len(error)} | {name: float(f"{value:.3g}") for name, value in spread.items()}


def _effects(
    work: Work, result: FitResult, tested: Work, wanted: Collection[str]
) -> dict[str, FloatArray]:
    """The ``wanted`` effects of a fit on the rows ``tested``; of others the mean of all rows."""
    priors = priors_file()
    found = {}
    for effect, group in EFFECTS:
        known = dict(
            zip(sorted(set(work.names[group])), result.values[effect].tolist(), strict=True)
        )
        # Then every member is taken as one that no row has.
        if effect not in wanted:
            known = {}
        found[effect] = np.array(
            [
                known.get(name, _prior_launch(name, priors) if effect == "launch" else 1.0)
                for name in tested.names[group]
            ]
        )
    return found


EFFECTS = (
    ("generation", "generation"),
    ("gpu", "gpu"),
    ("speed", "framework"),
    ("launch", "framework"),
)


def leave_models_out(rows: Columns, *known_effects: Collection[str]) -> FloatArray:
    """Step seconds of each row, fitted on the rows of all other models.

    Constants, and ``known_effects`` of frameworks and GPUs, are those of the fit; other effects are
    usual. One line of seconds for each set of effects that is given.
    """
    priors = priors_file()
    out = np.full((len(known_effects), len(rows)), np.nan)
    names = np.array([catalogue_name(model) for model in rows.text("model").tolist()])
    for name in sorted(set(names.tolist())):
        test = names == name
        work, result, _ = fit(rows.where(~test))
        # Constants of the fit, the same for all tested rows; effects are set by set below.
        tested = work_of(rows.where(test))
        values = {
            n: np.full(int(test.sum()), result.values[n][0])
            for n in (*priors["fractions"], *priors["constants"], "fusion")
        }
        sharpness = float(priors["sharpness"]["value"])
        for line, effects in enumerate(known_effects):
            of_fit = _effects(work, result, tested, effects)
            out[line, test] = step_seconds(tested, values | of_fit, sharpness)
    return out


def write() -> None:
    """Fit, and write the file."""
    from ruamel.yaml import YAML

    rows = usable(fit_rows(packaged_table(TABLE, REQUIRED)))
    work, result, fitted = fit(rows)
    content = constants_of(work, result)
    content["errors"] = {
        "fitted rows, with the effects of frameworks and GPUs": errors(
            fitted, measured_seconds(rows)
        ),
        "each model left out, all its variants with it": errors(
            leave_models_out(rows, dict(EFFECTS))[0], measured_seconds(rows)
        ),
    }
    yaml = YAML(typ="safe", pure=True)
    yaml.width = 130
    with (Path(dpsim.workload.__path__[0]) / "efficiency.yaml").open(
        "w", encoding="utf-8"
    ) as stream:
        stream.write(HEADER)
        yaml.dump(content, stream)


if __name__ == "__main__":
    write()

"""Scaling efficiency of data-parallel training from a smaller configuration of the same case.

The compute of a micro-step, c, is what the smallest configuration shows once its own overhead is
taken off; then

    step(n) = a c (1 + (jitter + sigma) sqrt(2 ln n)) + host log2 g + exposed + hook [n > 1]
    exposed = ((o c)^p + T^p)^(1/p) - o c + u T
    T       = 2 (g-1)/g S / (e B_link) + 2 (N-1)/N S / (e' B_nic)

a: gradient accumulation steps, g: GPUs per node, N: nodes, S: gradient bytes, sigma: spread of the
samples' work (sentences), u: what the software system cannot hide. Links and NICs come from the
catalogue by the words of `intra_link` and `network`. Seconds and bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpsim.base.arrays import BoolArray, FloatArray, IntArray
from dpsim.base.errors import UnknownNameError
from dpsim.network.libraries.nccl import stated_cards
from dpsim.workload import build_model
from validate.published.tables import (
    Block,
    Columns,
    TextArray,
    constants_file,
    fit_blocks,
    model_named,
    soft_maximum,
)


@dataclass(frozen=True)
class ScalingParameters:
    """Global values, one software share per system, one input spread per class of samples."""

    values: Mapping[str, float]
    errors: Mapping[str, float]
    software: Mapping[str, float]
    input_spread: Mapping[str, float]


@dataclass(frozen=True)
class Setup:
    """One row per configuration, in SI units."""

    ranks: FloatArray
    nodes: FloatArray
    accumulation: FloatArray
    weights: FloatArray
    mixed: BoolArray
    link: FloatArray
    nic: FloatArray

    def at(self, index: IntArray) -> Setup:
        """The chosen rows."""
        return Setup(*(getattr(self, name)[index] for name in self.__dataclass_fields__))

    # A fit reads these some ten thousand times.
    @cached_property
    def inside(self) -> FloatArray:
        """GPUs of a node."""
        return self.ranks / self.nodes

    @cached_property
    def deviations(self) -> FloatArray:
        """How many of them the largest of so many normal draws lies above their mean, about."""
        return np.asarray(np.sqrt(2.0 * np.log(self.ranks)))

    @cached_property
    def doublings(self) -> FloatArray:
        """How often the GPUs of a node double from one."""
        return np.asarray(np.log2(np.maximum(self.inside, 1.0)))

    @cached_property
    def crossed(self) -> tuple[FloatArray, FloatArray]:
        """How often a ring sends a message's size, inside each node and between the nodes."""
        within = 2.0 * (self.inside - 1.0) / self.inside
        return within, 2.0 * (self.nodes - 1.0) / self.nodes


def inner_rate(text: str, constants: Mapping[str, Any]) -> float:
    """The bus bandwidth in B/s of the first catalogue entry whose words occur in the text."""
    # "NVLink 4" and "PCIe Gen5" are as good as "NVLink4" and "PCIe5".
    words = re.sub(r"\b(nvlink|pcie)[\s-]*(?:gen|v)?[\s-]*(?=\d)", r"\1", text.casefold())
    for entry in constants["inner_links"]:
        if all(word in words for word in entry["words"]):
            return float(entry["rate"])
    raise ValueError(f"no link of the catalogue fits {text!r}")


def nic_rate(text: str, constants: Mapping[str, Any]) -> float:
    """A node's NIC rate in B/s from words like '8x IB EDR100', '25Gbps', '16x100Gb'."""
    cards = stated_cards(text)
    if cards is not None:
        count, bits = cards
        return count * bits / 8
    lowered = text.casefold()
    named = [float(rate) for name, rate in constants["nic_names"].items() if name in lowered]
    return (named[0] if named else float(constants["nic_unknown"]["value"])) * 1e9 / 8


def weight_count(model: str, constants: Mapping[str, Any]) -> float:
    """The number of parameters: the table's, else the catalogue's, else that of a usual model."""
    table = constants["parameters_m"]
    name = model_named(model, table)
    if name is not None:
        return 1e6 * float(table[name])
    try:
        return float(build_model(model).parameters)
    except UnknownNameError:
        return 1e6 * float(table["default"])


def setup_of(rows: Columns, constants: Mapping[str, Any]) -> Setup:
    """Reads gpus, nodes, grad_accum, model, precision, intra_link, network."""
    nodes = rows.above_zero("nodes")
    precisions = [str(text).casefold() for text in rows.text("precision")]
    return Setup(
        ranks=rows.above_zero("gpus"),
        nodes=np.where(np.isnan(nodes), 1.0, nodes),
        accumulation=np.maximum(accumulation_of(rows), 1.0),
        weights=np.array([weight_count(model, constants) for model in rows.text("model")]),
        mixed=np.array([text.startswith(("amp", "fp16", "bf16")) for text in precisions]),
        link=np.array([inner_rate(text, constants) for text in rows.text("intra_link")]),
        nic=np.array([nic_rate(text, constants) for text in rows.text("network")]),
    )


def overhead(setup: Setup, compute: FloatArray, v: Mapping[str, FloatArray]) -> FloatArray:
    """Step seconds beyond a micro-steps of compute; formula in the module's docstring."""
    wire = _wire_seconds(setup, v)
    # What software cannot hide comes on top, also of what the backward pass has room for.
    hidden = v["overlap"] * compute
    exposed = soft_maximum(hidden, wire, v["overlap_norm"]) - hidden + v["software"] * wire
    slowest = (v["jitter"] + v["input_spread"]) * setup.deviations
    host = v["host"] * setup.doublings * setup.accumulation
    fixed = host + v["hook"] * (setup.ranks > 1)
    return np.asarray(setup.accumulation * compute * slowest + fixed + exposed)


def _wire_seconds(setup: Setup, v: Mapping[str, FloatArray]) -> FloatArray:
    """Seconds of the all-reduce: a ring inside each node, and one between the nodes."""
    size = setup.weights * np.where(setup.mixed, v["amp_bytes"], 4.0)
    within, between = setup.crossed
    inside = within * size / (v["inner_share"] * setup.link)
    return inside + between * size / (v["nic_share"] * setup.nic)


@dataclass(frozen=True)
class Pairs:
    """Larger configurations (index `row`), each with the smallest of its case (index `base`)."""

    row: IntArray
    base: IntArray
    measured: FloatArray
    base_seconds: FloatArray


def timed(rows: Columns) -> BoolArray:
    """Which rows have a GPU count and a throughput or step time."""
    return np.asarray(~np.isnan(rows.above_zero("gpus")) & ~np.isnan(speed_per_gpu(rows)))


def speed_per_gpu(rows: Columns) -> FloatArray:
    """Measured throughput per GPU.

    Samples per step time where no throughput stands; NaN where neither does.
    """
    step = rows.above_zero("step_time_ms") * 1e-3
    # Configurations whose batch is not stated count as of one batch, which cancels in a ratio.
    batch = np.nan_to_num(rows.above_zero("per_gpu_batch"), nan=1.0)
    by_step = batch * accumulation_of(rows) / step
    throughput = rows.above_zero("throughput")
    return np.where(np.isnan(throughput), by_step, throughput / rows.above_zero("gpus"))


def stated_step(rows: Columns) -> FloatArray:
    """Seconds of each row's step as stated, or by its throughput; NaN where neither tells."""
    stated, batch = rows.above_zero("step_time_ms") * 1e-3, rows.above_zero("per_gpu_batch")
    rate = rows.above_zero("throughput") / rows.above_zero("gpus")
    samples = np.array([not str(name).startswith("tokens") for name in rows.text("unit")])
    derived = np.where(samples, batch * accumulation_of(rows) / rate, np.nan)
    return np.where(np.isnan(stated), derived, stated)


def accumulation_of(rows: Columns) -> FloatArray:
    """Micro-steps of a step, 1 where the table says nothing."""
    return np.nan_to_num(rows.above_zero("grad_accum"), nan=1.0)


def pairs_of(rows: Columns, default_step: float) -> Pairs:
    """Pairs every configuration with the smallest (GPUs, then nodes) of its case, model and batch.

    Measured efficiency is the ratio of throughputs per GPU, or of step times per sample where no
    throughput stands.
    """
    ranks, nodes = rows.numbers("gpus"), np.nan_to_num(rows.above_zero("nodes"), nan=1.0)
    names = [rows.text(column).tolist() for column in ("case_id", "model", "precision")]
    cases: dict[tuple[str, ...], list[int]] = {}
    for i, key in enumerate(zip(*names, strict=True)):
        cases.setdefault(key, []).append(i)

    def size(i: int) -> tuple[float, float]:
        return ranks[i], nodes[i]

    larger: list[int] = []
    bases: list[int] = []
    for members in cases.values():
        base = min(members, key=size)
        # Others as small as the base are other measurements of it: they say nothing of scaling.
        own = [i for i in members if size(i) > size(base)]
        larger += own
        bases += [base] * len(own)
    row, base_rows = np.array(larger, dtype=np.int64), np.array(bases, dtype=np.int64)
    step, speed = rows.above_zero("step_time_ms") * 1e-3, speed_per_gpu(rows)
    # A throughput alone says no seconds: a usual step is taken, which overheads are held against.
    seconds = np.where(np.isnan(step), default_step * accumulation_of(rows), step)[base_rows]
    return Pairs(row, base_rows, speed[row] / speed[base_rows], seconds)


def efficiency(base: Setup, larger: Setup, pairs: Pairs, v: Mapping[str, FloatArray]) -> FloatArray:
    """Throughput per GPU of the larger configurations relative to those they are based on."""
    compute = pairs.base_seconds / base.accumulation
    for _ in range(4):  # fixed point: compute = (measured - overhead(compute)) / accumulation
        # A fit tries constants whose overhead exceeds the step: a fifth of it stays computing.
        left = pairs.base_seconds - overhead(base, compute, v)
        compute = np.maximum(left, 0.2 * pairs.base_seconds) / base.accumulation
    step = larger.accumulation * compute + overhead(larger, compute, v)
    # By micro-step, since the two may accumulate over different numbers of them.
    return np.asarray(pairs.base_seconds / base.accumulation / (step / larger.accumulation))


def _sample_class(model: str, constants: Mapping[str, Any]) -> str:
    unequal = any(model.startswith(name) for name in constants["unequal_samples"])
    return "unequal" if unequal else "equal"


def _index(names: TextArray | list[str], known: list[str]) -> IntArray:
    return np.array([known.index(str(name)) for name in names], dtype=np.int64)


def fit(rows: Columns) -> ScalingParameters:
    """Fits overheads to the efficiencies of the larger configurations of `rows`."""
    constants = constants_file("scaling/settings.yaml")
    rows = rows.where((rows.text("quality") == "ok") & timed(rows))
    setup = setup_of(rows, constants)
    pairs = pairs_of(rows, float(constants["step_unknown"]["value"]))
    systems = sorted(set(rows.text("system").tolist()))
    classes = sorted(constants["input_spread"])
    models = [str(model) for model in rows.text("model")[pairs.row]]
    everywhere: IntArray = np.zeros(len(pairs.row), dtype=np.int64)
    of_system = _index(rows.text("system")[pairs.row], systems)
    of_class = _index([_sample_class(model, constants) for model in models], classes)
    software = [constants["system"]["software"]] * len(systems)
    spreads = [constants["input_spread"][name] for name in classes]
    blocks = [
        _block(name, [prior], everywhere, fraction=name == "overlap")
        for name, prior in constants["global"].items()
    ]
    base, larger = setup.at(pairs.base), setup.at(pairs.row)
    blocks.append(_block("software", software, of_system))
    blocks.append(_block("input_spread", spreads, of_class))
    result = fit_blocks(
        blocks,
        lambda v: efficiency(base, larger, pairs, v),
        pairs.measured,
        float(constants["noise"]["value"]),
        elementwise=True,
    )

    single = list(constants["global"])
    return ScalingParameters(
        {name: float(result.values[name][0]) for name in single},
        {name: float(result.spreads[name][0]) for name in single},
        dict(zip(systems, result.values["software"].tolist(), strict=True)),
        dict(zip(classes, result.values["input_spread"].tolist(), strict=True)),
    )


def _block(
    name: str, priors: Sequence[Mapping[str, Any]], of_row: IntArray, *, fraction: bool = False
) -> Block:
    """Constants of one name, with the prior of each and the one that each row has."""
    values, spreads = (
        np.array([float(prior[field]) for prior in priors]) for field in ("value", "spread")
    )
    return Block(name, values, spreads, of_row, fraction)


def predict(rows: Columns, parameters: ScalingParameters) -> tuple[FloatArray, Pairs]:
    """Predicts efficiencies of the larger configurations.

    An unknown system takes the median software share.
    """
    constants = constants_file("scaling/settings.yaml")
    setup = setup_of(rows, constants)
    pairs = pairs_of(rows, float(constants["step_unknown"]["value"]))
    v = {name: np.full(len(pairs.row), value) for name, value in parameters.values.items()}
    usual = float(np.median(list(parameters.software.values())))
    systems = rows.text("system")[pairs.row].tolist()
    v["software"] = np.array([parameters.software.get(system, usual) for system in systems])
    models = rows.text("model")[pairs.row].tolist()
    kinds = [_sample_class(model, constants) for model in models]
    v["input_spread"] = np.array([parameters.input_spread[kind] for kind in kinds])
    return efficiency(setup.at(pairs.base), setup.at(pairs.row), pairs, v), pairs

"""Step times of PyTorch DDP jobs on small clusters (AdaptDL tables).

Compute, host, network, waiting.

Per row: n ranks on N nodes, g on the fullest, b samples per rank, S gradient bytes, in nb = 1 + S /
bucket buckets.

    C    = (G(b)^q + (H (1 + A c))^q)^(1/q) (1 + a c)   GPU time against host time
    c    = 1 - exp(-(g-1)/K)                        neighbours on the host: it fills up
    X    = 2 (n-1)/n S                              bytes that each rank of a ring sends
    T_n  = X / B(N, g) + nb (alpha_n N^z + crowd [n > 32])   between nodes
    T_i  = X / B_i(g) + nb alpha_i (g-1)                 inside a node
    step = (1-o) C + ((o C)^p + max(T_n, T_i)^p)^(1/p) + wait + hook [n > 1]
    wait = C (longest(n b)/longest(b) - 1) + C jitter sqrt(2 ln n)
    longest(k) = 1 + sigma sqrt(2 ln k)

B(N, g) = B_4 g^-e {f_2 at N = 2, f_3 at N = 3, (N/4)^-d from 4 on}; B_i(g) = B_i2 (g/2)^-c. sqrt(2
ln k) is the expected maximum of k standard normals (leading term): the slowest of n ranks, the
longest of n b samples. G is a measured table over batch sizes, interpolated in log-log. Everything
in seconds and bytes.

A fit reads a row twice where much of its step was exposed synchronisation: the step, and what is
left of it, which is C. That tells network from compute where both are in the step.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpsim.base.arrays import BoolArray, FloatArray, IntArray
from validate.published.tables import (
    Block,
    Columns,
    FitResult,
    constants_file,
    fit_blocks,
    soft_maximum,
)

MODEL_FIELDS = (
    "gradient_bytes",
    "overlap",
    "host_s",
    "host_crowding",
    "host_slowdown",
    "host_reach",
    "input_spread",
    "hook_s",
)


@dataclass(frozen=True)
class ModelParameters:
    """One training job on one kind of machine: compute times, and how host and network meet."""

    gradient_bytes: float
    overlap: float
    host_s: float
    host_crowding: float
    host_slowdown: float
    host_reach: float
    input_spread: float
    hook_s: float
    batches: tuple[float, ...]
    gpu_s: tuple[float, ...]

    def compute(self, batch: FloatArray) -> FloatArray:
        """GPU seconds of a step.

        Log-log interpolation, proportional above the table, constant below.
        """
        table = np.interp(np.log(batch), np.log(self.batches), np.log(self.gpu_s))
        return np.asarray(np.exp(table) * np.maximum(batch / self.batches[-1], 1.0))


@dataclass(frozen=True)
class ClusterParameters:
    """The network of one cluster, its jobs, and their standard errors (log units)."""

    network: Mapping[str, float]
    network_error: Mapping[str, float]
    models: Mapping[str, ModelParameters]


@dataclass(frozen=True)
class Placement:
    """Where the ranks of each row sit."""

    ranks: FloatArray
    nodes: FloatArray
    densest: FloatArray
    batch: FloatArray

    @staticmethod
    def of(rows: Columns) -> Placement:
        """Reads gpus, nodes, local_bsz and placement.

        The fullest node is that of the digits of `placement`; without it, GPUs are spread evenly.
        """
        ranks, nodes = rows.positive("gpus"), rows.positive("nodes")
        even = np.ceil(ranks / nodes)
        # AdaptDL writes a placement as one digit a node: 211 is two GPUs on one and one on two.
        fullest = [max(map(int, cell)) if cell.isdigit() else 0 for cell in rows.text("placement")]
        named = np.array(fullest, dtype=np.float64)
        densest = np.where(named > 0, named, even)
        return Placement(ranks, nodes, densest, rows.positive("local_bsz"))


def _extreme(count: FloatArray) -> FloatArray:
    """The leading term of the expected maximum of `count` standard normals."""
    return np.asarray(np.sqrt(2.0 * np.log(np.maximum(count, 1.0))))


def communication(
    place: Placement, v: Mapping[str, FloatArray], bucket: float, crowd: float
) -> FloatArray:
    """All-reduce seconds per row (formula in the module's docstring)."""
    n, nodes, g = place.ranks, place.nodes, place.densest
    sent = 2.0 * (n - 1.0) / n * v["gradient_bytes"]
    buckets = 1.0 + v["gradient_bytes"] / bucket
    # Rates of two and three nodes lie on no power law with those of more: values of their own.
    few = np.where(nodes == 3, v["three_node_factor"], 1.0)
    few = np.where(nodes == 2, v["two_node_factor"], few)
    decay = (np.maximum(nodes, 4.0) / 4.0) ** -v["node_decay"]
    shared_nic = g ** -v["shared_nic"]
    rate = v["node_bandwidth"] * shared_nic * few * decay
    hops = nodes ** v["latency_growth"]
    latency = v["node_latency"] * hops + v["crowd_latency"] * (n > crowd)
    between = (nodes > 1) * (sent / rate + buckets * latency)

    shared_bus = (np.maximum(g, 2.0) / 2.0) ** -v["shared_bus"]
    inner_rate = v["gpu_bandwidth"] * shared_bus
    inner_latency = buckets * v["gpu_latency"] * (g - 1.0)
    inside = (g > 1) * (sent / inner_rate + inner_latency)
    # A ring goes at the pace of its slowest hop, so the two do not add up.
    return np.asarray(np.maximum(between, inside))


def local_seconds(place: Placement, v: Mapping[str, FloatArray]) -> FloatArray:
    """Seconds per row of a rank's own work, which no other rank and no network hold up."""
    # Loaders and launches get in one another's way until all of a host's cores are busy.
    crowded = -np.expm1((1.0 - place.densest) / v["host_reach"])
    host = v["host_s"] * (1.0 + v["host_crowding"] * crowded)
    slowed = 1.0 + v["host_slowdown"] * crowded
    return soft_maximum(v["gpu_s"], host, v["host_norm"]) * slowed


def step_seconds(
    place: Placement, v: Mapping[str, FloatArray], bucket: float, crowd: float
) -> FloatArray:
    """Step seconds per row.

    `v` holds each parameter per row, `gpu_s` the compute at the row's batch.
    """
    n = place.ranks
    compute = local_seconds(place, v)
    # Samples differ in length: the longest of a step's against the longest of one GPU's.
    longest_of_all = 1.0 + v["input_spread"] * _extreme(n * place.batch)
    longest_of_one = 1.0 + v["input_spread"] * _extreme(place.batch)
    wait = compute * (longest_of_all / longest_of_one - 1.0 + v["jitter"] * _extreme(n))
    network = communication(place, v, bucket, crowd)
    # Only a share of the compute, about the backward pass, can run beside the network.
    covered = soft_maximum(v["overlap"] * compute, network, v["overlap_norm"])
    bare = (1.0 - v["overlap"]) * compute
    hooks = v["hook_s"] * (n > 1)
    return np.asarray(bare + covered + wait + hooks)


def _named(table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    entry: Mapping[str, Any] = table[name] if name in table else table["default"]
    return entry


def _network_prior(
    constants: Mapping[str, Any], description: tuple[str, str] | None
) -> dict[str, tuple[float, float]]:
    """Returns (value, spread) per network parameter.

    They are centred on the rates that the cluster's links suggest.
    """
    prior = {
        name: (float(entry["value"]), float(entry["spread"]))
        for name, entry in constants["network"].items()
    }
    if description is None:
        return prior
    inside, between = description
    for parameter, table, text in (
        ("gpu_bandwidth", "intra", inside),
        ("node_bandwidth", "inter", between),
    ):
        _, spread = prior[parameter]
        # Where a description names several links, the table's last one counts.
        for word, rate in constants["link_rates"][table].items():
            if word in text:
                prior[parameter] = (float(rate), spread)
    return prior


def _blocks(
    rows: Columns, constants: Mapping[str, Any], description: tuple[str, str] | None
) -> tuple[list[Block], list[str], list[tuple[str, float]]]:
    """The unknowns of one cluster, its models, and the (model, batch) keys of the compute table."""
    names = rows.text("model").tolist()
    batches = rows.numbers("local_bsz").tolist()
    models = sorted(set(names))
    pairs = list(zip(names, batches, strict=True))
    keys = sorted(set(pairs))
    place = {key: i for i, key in enumerate(keys)}
    key_rows = np.array([place[pair] for pair in pairs], dtype=np.int64)
    start = _compute_at_first(rows, key_rows, len(keys))
    owners = np.array([name for name, _ in keys])
    smallest = np.array([start[owners == model].min() for model in models])
    # Nothing is known of a GPU's compute beforehand: an infinite spread is no prior at all.
    no_prior = np.full(len(keys), np.inf)
    blocks = [Block("gpu_s", start, no_prior, key_rows)]
    blocks += _model_blocks(names, models, smallest, constants)
    zero: IntArray = np.zeros(len(rows), dtype=np.int64)
    for name, (value, spread) in _network_prior(constants, description).items():
        blocks.append(Block(name, np.array([value]), np.array([spread]), zero))
    return blocks, models, keys


def _compute_at_first(rows: Columns, key_rows: IntArray, keys: int) -> FloatArray:
    """GPU seconds of each key that the fit starts from.

    The geometric mean of the key's steps; on several GPUs a sixth of a step goes to the network.
    """
    with_network = np.where(rows.numbers("gpus") > 1, 1.2, 1.0)
    step = rows.positive("step_time_ms") * 1e-3 / with_network
    count = np.bincount(key_rows, minlength=keys)
    sums = np.bincount(key_rows, np.log(step), keys)
    return np.asarray(np.exp(sums / count))


def _model_blocks(
    names: list[str], models: list[str], smallest: FloatArray, constants: Mapping[str, Any]
) -> list[Block]:
    """The unknowns that each model has one of; ``smallest`` is its least compute in seconds."""
    model_rows = np.array([models.index(name) for name in names], dtype=np.int64)
    blocks = []
    for name in ("gradient_bytes", "input_spread"):
        entries = [_named(constants[name], model) for model in models]
        values = np.array([float(entry["value"]) for entry in entries])
        spreads = np.array([float(entry["spread"]) for entry in entries])
        blocks.append(Block(name, values, spreads, model_rows))
    for name, entry in constants["model"].items():
        # The host's share is of the least compute; every other constant is of its own kind.
        scale = smallest if name == "host_share" else np.ones(len(models))
        field = {"host_share": "host_s", "hook": "hook_s"}.get(name, name)
        spreads = np.full(len(models), float(entry["spread"]))
        values = float(entry["value"]) * scale
        blocks.append(Block(field, values, spreads, model_rows, name == "overlap"))
    return blocks


def _states_own_work(rows: Columns, least_share: float) -> BoolArray:
    """Which rows state enough exposed synchronisation to tell own work from the network.

    Where less is exposed a rank's own work is its step, which is read already.
    """
    share = rows.numbers("exposed_sync_ms") / rows.positive("step_time_ms")
    # Next to nothing is left of a step that is all synchronisation, and its logarithm is noise.
    return np.asarray((share >= least_share) & (share <= 0.95))


def _fit(rows: Columns, blocks: list[Block], constants: Mapping[str, Any]) -> FitResult:
    """Fits blocks to the rows' steps, and to own work where that can be told."""
    bucket, crowd = float(constants["bucket"]["value"]), float(constants["crowd"]["value"])
    stated = _states_own_work(rows, float(constants["least_exposed"]["value"]))
    every, told_apart = Placement.of(rows), Placement.of(rows.where(stated))
    read = np.concatenate([np.arange(len(rows)), np.flatnonzero(stated)])

    def predicted(v: Mapping[str, FloatArray]) -> FloatArray:
        of_steps = {name: values[: len(rows)] for name, values in v.items()}
        of_work = {name: values[len(rows) :] for name, values in v.items()}
        steps = step_seconds(every, of_steps, bucket, crowd)
        return np.concatenate([steps, local_seconds(told_apart, of_work)])

    step_s = rows.positive("step_time_ms") * 1e-3
    work_s = (step_s - rows.numbers("exposed_sync_ms") * 1e-3)[stated]
    noise, work_noise = float(constants["noise"]["value"]), float(constants["work_noise"]["value"])
    return fit_blocks(
        [replace(block, rows=block.rows[read]) for block in blocks],
        predicted,
        np.concatenate([step_s, work_s]),
        noise,
        np.concatenate([np.ones(len(step_s)), np.full(len(work_s), noise / work_noise)]),
    )


def fit_cluster(rows: Columns, description: tuple[str, str] | None) -> ClusterParameters:
    """Fits one cluster's rows; description: its (intra_link, network) texts."""
    constants = constants_file("adaptdl/settings.yaml")
    blocks, models, keys = _blocks(rows, constants, description)
    result = _fit(rows, blocks, constants)
    fitted: dict[str, ModelParameters] = {}
    for i, model in enumerate(models):
        values = {name: float(result.values[name][i]) for name in MODEL_FIELDS}
        gpu_s = dict(zip(keys, result.values["gpu_s"].tolist(), strict=True))
        # Keys are sorted, so that a model's batches rise, as its table must.
        own = {batch: seconds for (name, batch), seconds in gpu_s.items() if name == model}
        fitted[model] = ModelParameters(**values, batches=tuple(own), gpu_s=tuple(own.values()))
    names = list(constants["network"])
    return ClusterParameters(
        {name: float(result.values[name][0]) for name in names},
        {name: float(result.spreads[name][0]) for name in names},
        fitted,
    )


def with_peaks(job: ModelParameters, scale: float) -> ModelParameters:
    """A job of another machine, its compute and host times multiplied by ``scale``."""
    gpu_s = tuple(seconds * scale for seconds in job.gpu_s)
    return replace(job, host_s=job.host_s * scale, gpu_s=gpu_s)


def borrowed(
    model: str, here: ClusterParameters, others: Iterable[ClusterParameters]
) -> ModelParameters | None:
    """A model that was never run on this cluster.

    Another cluster's, scaled by the models that both have run; None without any.
    """
    for other in others:
        shared = [name for name in here.models if name in other.models]
        if model not in other.models or not shared:
            continue
        ratios = []
        for name in shared:
            mine, theirs = here.models[name], other.models[name]
            batch = np.array(mine.batches)
            log_ratio = np.log(mine.compute(batch) / theirs.compute(batch))
            # The other's table may not reach all these batches: the median passes over its ends.
            ratios.append(np.median(log_ratio))
        return with_peaks(other.models[model], float(np.exp(np.mean(ratios))))
    return None


def unmeasured_cluster(description: tuple[str, str] | None) -> ClusterParameters:
    """A cluster of which nothing was measured: its network as its description suggests."""
    prior = _network_prior(constants_file("adaptdl/settings.yaml"), description)
    values = {name: value for name, (value, _) in prior.items()}
    spreads = {name: spread for name, (_, spread) in prior.items()}
    return ClusterParameters(values, spreads, models={})


def predict(rows: Columns, cluster: ClusterParameters, job: ModelParameters) -> FloatArray:
    """Step seconds of rows of one cluster and model.

    Reads placement, nodes, gpus and local_bsz only.
    """
    constants = constants_file("adaptdl/settings.yaml")
    place = Placement.of(rows)
    constant = dict(cluster.network) | {name: getattr(job, name) for name in MODEL_FIELDS}
    values = {name: np.full(len(rows), value) for name, value in constant.items()}
    values["gpu_s"] = job.compute(place.batch)
    bucket, crowd = float(constants["bucket"]["value"]), float(constants["crowd"]["value"])
    return step_seconds(place, values, bucket, crowd)

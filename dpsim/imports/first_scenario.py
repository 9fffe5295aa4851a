"""A first scenario from a few answers: GPU, nodes, network, model and strategy."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.base.registry import Registry
from dpsim.base.units import RATE, parse
from dpsim.hardware import Gpu, Node, PciePort, gpus, links, nodes, pcie_rate
from dpsim.imports.scenario_draft import ScenarioDraft, Value
from dpsim.workload import build_model, precision_named

# Makers' machines come first, then generic PCIe servers, then those of a cloud or a site.
_PLAIN_MACHINES = ("dgx", "hgx", "pcie", "single")
_CLOUDS = ("aws", "azure", "gcp", "oci")
_PRECISIONS = ("bf16", "fp16", "fp32")  # the first that the GPU supports is used
_HALVES = ("bf16", "fp16")
_LATENCY = "10 us"
_HEADING = "Written by dpsim init. Run it: dpsim run FILE; change one value: --set cluster.nodes=8"


@dataclass(frozen=True, slots=True)
class Recipe:
    """A training strategy by its common name.

    ``about`` describes it in a few words; ``values`` are its settings by path, each with a comment.
    """

    about: str
    values: tuple[tuple[str, Value, str], ...]


@dataclass(frozen=True, slots=True)
class Answers:
    """The user's answers on a planned training; None means the usual value.

    ``network``: the link, or its rate, of each of a node's ``nics``. ``model``: a name of the
    catalogue, a Hugging Face ``config.json``, or ``file.py:factory`` of a torch module whose
    samples have the shape ``input``. ``batch``: samples of a GPU and pass.
    """

    gpu: str = "h100"
    nodes: int = 1
    gpus_per_node: int | None = None
    node: str | None = None
    network: str | None = None
    nics: int | None = None
    model: str = "llama3-8b"
    input: tuple[int, ...] = ()
    sequence_length: int | None = None
    precision: str | None = None
    strategy: str = "ddp"
    batch: int = 1
    global_batch: int | None = None
    checkpoint: bool = False


_SHARDED = ("strategy.aggregation.kind", "sharded", "each GPU holds a part (ZeRO, FSDP)")
_REPLICATED = ("strategy.aggregation.kind", "allreduce", "each GPU holds the whole model")
_LIBRARY = ("strategy.aggregation.library", "auto", "NCCL's choices, RCCL's on AMD's GPUs")
_BUCKETS = ("strategy.overlap.kind", "buckets", "gradients go in buckets beside backward")
_BUCKET = ("strategy.overlap.bucket_size", "25 MiB", "DDP's bucket_cap_mb")
_BY_UNIT = ("strategy.overlap.kind", "wfbp", "each unit's gradient goes as soon as it is there")
_DDP = (_REPLICATED, _LIBRARY, _BUCKETS, _BUCKET)
_FSDP = (
    _SHARDED,
    ("strategy.aggregation.stage", 3, "weights, gradients and optimiser state are divided"),
    ("strategy.aggregation.wrap", "block", "a unit of FSDP is a block of the model"),
    _LIBRARY,
)

STRATEGIES: Registry[Recipe] = Registry(
    "strategy",
    {
        "ddp": Recipe("DistributedDataParallel: all-reduced gradients", _DDP),
        "zero-1": Recipe(
            "ZeRO 1: the optimiser's state is divided",
            (
                _SHARDED,
                ("strategy.aggregation.stage", 1, "the optimiser's state"),
                _LIBRARY,
                _BUCKETS,
                _BUCKET,
            ),
        ),
        "zero-2": Recipe(
            "ZeRO 2: gradients too",
            (
                _SHARDED,
                ("strategy.aggregation.stage", 2, "and gradients"),
                _LIBRARY,
                _BUCKETS,
                _BUCKET,
            ),
        ),
        "fsdp": Recipe("FSDP, ZeRO 3: weights too", (*_FSDP, _BY_UNIT)),
        "hsdp": Recipe(
            "FSDP inside each node, replicas of that between nodes",
            (*_FSDP, ("strategy.aggregation.shard_group", "node", "or all, or N GPUs"), _BY_UNIT),
        ),
        "parameter-server": Recipe(
            "servers on the nodes' CPUs hold the model",
            (
                ("strategy.aggregation.kind", "parameter-server", "a server on each node"),
                ("strategy.sync.kind", "bsp", "or ssp, asp, backup"),
            ),
        ),
        "local-sgd": Recipe(
            "models are averaged now and then",
            (
                *_DDP,
                ("strategy.sync.kind", "local-sgd", "workers go their own way, and"),
                ("strategy.sync.every", 8, "average their models every so many steps"),
            ),
        ),
        "powersgd": Recipe(
            "all-reduced gradients of low rank",
            (
                *_DDP,
                ("strategy.compression.kind", "powersgd", "two thin factors for each gradient"),
                ("strategy.compression.rank", 4, "more is closer to the gradient, and larger"),
            ),
        ),
    },
)


_ALSO_CALLED = {"zero-3": "fsdp", "fsdp2": "fsdp", "hybrid": "hsdp", "ps": "parameter-server"}


def strategy_named(name: str) -> str:
    """Return the strategy for a user's ``name``, in any case: "FSDP", "ZeRO-3", "zero1".

    Raises UnknownNameError.
    """
    plain = re.sub(r"zero[ _]?(?=\d)", "zero-", name.lower()).replace("_", "-")
    found = _ALSO_CALLED.get(plain, plain)
    if found not in STRATEGIES:
        raise UnknownNameError(STRATEGIES.what, name, STRATEGIES)
    return found


def scenario_from_answers(answers: Answers) -> ScenarioDraft:
    """Return the scenario, with a comment on each value.

    Raises DpsimError for unknown names, and for machines with too few GPUs.
    """
    draft = ScenarioDraft(_name(answers), "dpsim init", heading=_HEADING)
    _place(draft, answers)
    _train(draft, answers)
    values = STRATEGIES[answers.strategy].values
    for path, value, comment in values:
        draft.set(path, value, comment)
    if _SHARDED in values and _precision(answers) in _HALVES:
        draft.set("strategy.aggregation.weight_bytes", 2, "gathered in half precision")
    draft.set("run.steps", 20, "simulated, after which figures are means")
    draft.set("run.warmup", 2, "simulated before them, and not counted")
    return draft


def machine_for(gpu: str, count: int | None = None) -> str:
    """Return the catalogue's node that best matches machines with ``count`` such GPUs.

    It has the same or the closest ports, and enough GPUs. Machines of no cloud are preferred, with
    that GPU, or with one that differs only in memory or clock.
    """
    wanted = gpus()[gpu]

    def unlike(named: tuple[str, Node]) -> tuple[object, ...]:
        name, node = named
        plain = (n for n, start in enumerate(_PLAIN_MACHINES) if name.startswith(start))
        # The caller takes the minimum, in which earlier entries outweigh later ones.
        return (
            _nvlinks(node.gpu) != _nvlinks(wanted),
            0.0 if _nvlinks(wanted) else _far(node.gpu, wanted),
            count is not None and node.gpus < count,
            _closeness(name, node.gpu, wanted),
            0 if count is None else node.gpus - count,
            next(plain, len(_PLAIN_MACHINES)),
            -node.gpus,
            name,
        )

    return min(nodes().items(), key=unlike)[0]


def _closeness(name: str, has: Gpu, wanted: Gpu) -> int:
    """Return the rank of a machine by its GPU and by whether it is a cloud's; lower is closer.

    0: that GPU, no cloud. 1: no cloud, a GPU of its generation with the same NVLinks and peaks. 2:
    the same, with other peaks. 3: that GPU in a cloud. 4: another GPU, no cloud. 5: another in a
    cloud.
    """
    in_cloud = name.startswith(_CLOUDS)
    if has.name == wanted.name:
        return 3 if in_cloud else 0
    if in_cloud:
        return 5
    if _nvlinks(wanted) is None or has.architecture != wanted.architecture:
        return 4
    return 1 if _peaks(has) == _peaks(wanted) else 2


def _peaks(gpu: Gpu) -> dict[str, float]:
    return {precision: peak.value for precision, peak in gpu.peak.items()}


def _nvlinks(gpu: Gpu) -> tuple[object, ...] | None:
    """Return the NVLinks that connect the GPU to all others of its machine, if any."""
    ports = gpu.nvlink_fabric
    return None if ports is None else (ports.link, ports.count)


def _far(has: Gpu, wanted: Gpu) -> float:
    """Return the ratio of their PCIe links, as a logarithm.

    Infinite for a machine without any, such as a superchip's, which is for its own GPU only.
    """
    if has.name == wanted.name:
        return 0.0
    if has.pcie is None:
        return math.inf
    # For a GPU without a known link, all machines are equally far.
    return 1.0 if wanted.pcie is None else abs(math.log(_pcie(has.pcie) / _pcie(wanted.pcie)))


def _pcie(port: PciePort) -> float:
    return pcie_rate(port.generation, port.lanes)


def _name(answers: Answers) -> str:
    whole = answers.model.removesuffix("/config.json")
    model = whole.rpartition("/")[2].partition(".py:")[0].removesuffix(".json")
    return f"{model}-{answers.strategy}-{answers.nodes}x{gpus().canonical(answers.gpu)}"


def _place(draft: ScenarioDraft, answers: Answers) -> None:
    """Set the machines, and the network between them."""
    gpu = gpus().canonical(answers.gpu)
    kind = answers.node or machine_for(gpu, answers.gpus_per_node)
    node = nodes()[kind]
    each = answers.gpus_per_node or node.gpus
    if each > node.gpus:
        raise DpsimError(
            f"--gpus-per-node: must be at most the {node.gpus} of a {kind}, but got {each}"
        )
    draft.set("cluster.nodes", answers.nodes, "machines")
    draft.set("cluster.node", nodes().canonical(kind), "their kind: dpsim catalogue nodes")
    if node.gpu.name != gpu:
        draft.set("cluster.gpu", gpu, "instead of the machine's own")
    if each != node.gpus:
        draft.set("cluster.gpus_per_node", each, f"in use, of {node.gpus}")
    if answers.nodes > 1 or answers.network is not None or answers.nics is not None:
        draft.set("cluster.network.fabric", "single-switch", "or leaf-spine, fat-tree, torus, ...")
    if answers.network is not None:
        _join(draft, answers.network)
    if answers.network is not None or answers.nics is not None:
        # Written out, since a machine of eight fast cards seldom has as many of another link.
        nics = answers.nics or node.nics.count
        draft.set("cluster.network.nics_per_node", nics, "cards of each machine, of such a link")


def _join(draft: ScenarioDraft, network: str) -> None:
    """Set the link of each network card: one of the catalogue, or one of a given rate."""
    if not _is_rate(network):
        draft.set("cluster.network.nic", links().canonical(network), "dpsim catalogue links")
        return
    draft.set("cluster.network.nic.rate", network, "each card's, each way")
    draft.assume("cluster.network.nic.latency", _LATENCY, "that of Ethernet in a data centre")


def _is_rate(network: str) -> bool:
    """Return whether ``network`` is a rate such as "5 Gbit/s". Raises DpsimError for a bad unit."""
    try:
        parse(network, RATE)
    except DpsimError as error:
        # Names of links have no slash.
        if "/" in network:
            raise DpsimError(f"--network: {error}") from None
        return False
    return True


def _train(draft: ScenarioDraft, answers: Answers) -> None:
    """Set the model, and the samples of a step."""
    if answers.input:
        draft.set("workload.model.torch", answers.model, "code that is run: it returns the module")
        draft.set("workload.model.input", [*answers.input], "the shape of one sample")
    elif _is_config(answers.model):
        draft.set("workload.model.config", answers.model, "a configuration of Hugging Face")
    else:
        draft.set("workload.model", answers.model, "dpsim catalogue models")
    if answers.sequence_length is not None:
        draft.set("workload.sequence_length", answers.sequence_length, "tokens of a sample")
    draft.set("workload.batch_per_gpu", answers.batch, "samples of a GPU and pass")
    if answers.global_batch is not None:
        draft.set("workload.global_batch", answers.global_batch, "samples of a step, all GPUs")
    precision = _precision(answers)
    draft.set("workload.precision", precision, "of matrix products; weights are fp32")
    draft.set("workload.optimizer", _optimizer(answers), "or adam, sgd")
    if answers.checkpoint:
        draft.set("workload.checkpoint", "full", "every block is computed again in backward")


def _precision(answers: Answers) -> str:
    """Return the given precision, or the first usual one that the GPU supports."""
    if answers.precision is not None:
        return precision_named(answers.precision)
    peak = gpus()[answers.gpu].peak
    return next(each for each in _PRECISIONS if each in peak)


def names_file(model: str) -> bool:
    """Return whether a model is a path to the user's file, instead of a catalogue name."""
    return ".py:" in model or _is_config(model)


def _is_config(model: str) -> bool:
    return model.endswith(".json")


def _optimizer(answers: Answers) -> str:
    """Return the usual optimiser of such models."""
    if answers.input:
        return "momentum"
    if _is_config(answers.model) or build_model(answers.model).tokens is not None:
        return "adamw"
    return "momentum"

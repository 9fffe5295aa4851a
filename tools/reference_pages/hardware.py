"""The catalogues' pages: hardware with the source of every figure, and models."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import get_args

from dpsim.base.units import DATA, POWER, RATE, SPEED, TIME, human
from dpsim.hardware import Gpu, Link, Node, Precision, gpus, links, nodes
from dpsim.report.text.catalogue import CATALOGUES
from dpsim.workload import MODELS
from dpsim.workload.models import FamilyModel
from tools.reference_pages.fields import entry_sections
from tools.reference_pages.markdown import code, heading, page, plain, prose, table

_ABOUT_OWN_ENTRIES = """\
Wherever a scenario takes the name of a GPU, link or node it also takes a mapping with these \
fields (a node: also the path of a
YAML file with them, beside the scenario). `dpsim import nvidia-topo` and `nccl-topo` write \
nodes from what a machine says of
itself. A figure is the bare value, or a mapping of `value` and `source`.
"""
_ABOUT_MODELS = """\
Built layer by layer when asked for; FLOP are those of matrix products, two for a multiply and \
an add. Other spellings
(`ResNet-50`) are found too. A model of your own: `workload.model` in [the \
scenario](scenario.md#workload).
"""


def hardware_page() -> str:
    """Return the page of GPUs, links, nodes, and the format of an entry."""
    return page("Hardware catalogue", "`dpsim/hardware/`", _hardware())


def _hardware() -> Iterator[str]:
    yield from heading(2, "GPUs")
    precisions = get_args(Precision)
    yield (
        "Dense peak rates, with tensor cores where frameworks use them; an empty cell is "
        "arithmetic that the GPU lacks."
    )
    yield ""
    ports = ["capability", "NVLinks", "PCIe"]
    figures = ["GPU", *precisions, "memory", "bandwidth", "power", *ports]
    yield from table(figures, (_gpu(gpus()[name], precisions) for name in gpus()))
    yield from _entries(gpus()[name] for name in gpus())
    yield from heading(2, "Links")
    yield "Each direction alone; large messages reach the achievable share of the rate."
    yield ""
    yield from table(
        ["link", "rate", "achievable", "latency"], (_link(links()[name]) for name in links())
    )
    yield from _entries(links()[name] for name in links())
    yield from heading(2, "Nodes")
    yield from table(
        ["node", "GPUs", "links inside", "network cards", "switches that reduce"],
        (_node(nodes()[name]) for name in nodes()),
    )
    yield from _entries(nodes()[name] for name in nodes())
    yield from heading(2, "Own entries")
    yield from [*_ABOUT_OWN_ENTRIES.splitlines(), ""]
    for name, model in (("GPU", Gpu), ("Link", Link), ("Node", Node)):
        yield from heading(3, name)
        yield from entry_sections(model)


def _gpu(gpu: Gpu, precisions: tuple[Precision, ...]) -> list[str]:
    peaks = [human(gpu.peak[each].value, SPEED) if each in gpu.peak else "" for each in precisions]
    power = "" if gpu.power is None else human(gpu.power.value, POWER)
    nvlinks = "" if gpu.nvlink is None else f"{gpu.nvlink.count} x `{gpu.nvlink.link}`"
    return [
        f"`{gpu.name}`",
        *peaks,
        human(gpu.memory.value, DATA),
        human(gpu.memory_bandwidth.value, RATE),
        power,
        "" if gpu.compute_capability is None else f"{gpu.compute_capability.value:.1f}",
        f"{nvlinks} (bridge)" if gpu.nvlink and gpu.nvlink.bridge else nvlinks,
        "" if gpu.pcie is None else f"{gpu.pcie.generation} x{gpu.pcie.lanes}",
    ]


def _link(link: Link) -> list[str]:
    rate, latency = human(link.rate.value, RATE), human(link.latency.value, TIME)
    return [f"`{link.name}`", rate, f"{link.achievable.value:.3g}", latency]


def _node(node: Node) -> list[str]:
    inside = list(dict.fromkeys(edge.link.name for edge in node.edges))
    cards = f"{node.nics.count} x `{node.nics.link.name}`"
    return [
        f"`{node.name}`",
        f"{node.gpus} x `{node.gpu.name}`",
        code(inside),
        cards,
        code(node.in_network_reduction),
    ]


def _entries(entries: Iterable[Gpu | Link | Node]) -> Iterator[str]:
    """Yield each entry's description, its other names, and the sources of its figures."""
    for entry in entries:
        names = f" (also {', '.join(entry.aliases)})" if entry.aliases else ""
        parts = [plain(entry.description)]
        parts += [f"*{what}*: {source}." for source, what in _sources(entry).items()]
        yield f"- **{entry.name}**{names}: {' '.join(parts)}"
    yield ""


def _sources(entry: Gpu | Link | Node) -> dict[str, str]:
    """Return the figures of each source."""
    figures_of: dict[str, list[str]] = defaultdict(list)
    for name, figure in _figures(entry):
        figures_of[plain(figure).rstrip(".")].append(name)
    return {source: ", ".join(whats) for source, whats in figures_of.items()}


def _figures(entry: Gpu | Link | Node) -> Iterator[tuple[str, str]]:
    """Yield the name and the source of each figure."""
    match entry:
        case Gpu():
            for precision, peak in entry.peak.items():
                yield precision, peak.source
            yield "memory", entry.memory.source
            yield "bandwidth", entry.memory_bandwidth.source
            if entry.power is not None:
                yield "power", entry.power.source
            if entry.nvlink is not None:
                yield "NVLinks", entry.nvlink.source
            if entry.network is not None:
                yield "network", entry.network.source
        case Link():
            yield "rate", entry.rate.source
            yield "achievable", entry.achievable.source
            yield "latency", entry.latency.source
        case Node():
            for kind, capacity in entry.capacities.items():
                yield f"capacity of {kind}", capacity.source


def models_page() -> str:
    """Return the page of the models, with the source of each family's shapes."""
    return page("Models", "`dpsim/workload/models/`", _models())


def _models() -> Iterator[str]:
    yield from [*_ABOUT_MODELS.splitlines(), ""]
    columns = ("name", "parameters", "tensors", "forward FLOP", "sample")
    rows = []
    for row in CATALOGUES["models"]():
        name, *figures = (row[column] for column in columns)
        rows.append([f"`{name}`", *figures])
    yield from table(["model", "parameters", "tensors", "forward FLOP a sample", "sample"], rows)
    yield from heading(2, "Families")
    families: dict[str, list[str]] = defaultdict(list)
    for name, model in MODELS.items():
        assert isinstance(model.factory, FamilyModel)
        families[model.factory.module].append(name)
    for module, names in families.items():
        yield f"{code(names)}"
        yield ""
        yield from prose(import_module(module).__doc__)

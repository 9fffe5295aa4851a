"""The catalogues as rows: GPUs, links, nodes, models, algorithms, with figures and sources."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from dpsim.base.errors import UnknownNameError
from dpsim.base.registry import Registry
from dpsim.base.units import DATA, POWER, RATE, SPEED, TIME, human
from dpsim.collectives import ALGORITHMS
from dpsim.hardware import Gpu, Link, Node, gpus, links, nodes
from dpsim.workload import MODELS, build_model

Row = dict[str, Any]


def _gpu(gpu: Gpu) -> Row:
    return {
        "name": gpu.name,
        "description": gpu.description,
        "peak": ", ".join(f"{name} {human(peak.value, SPEED)}" for name, peak in gpu.peak.items()),
        "memory": human(gpu.memory.value, DATA),
        "memory bandwidth": human(gpu.memory_bandwidth.value, RATE),
        "power": "not published" if gpu.power is None else human(gpu.power.value, POWER),
        "source": "; ".join(dict.fromkeys(_sources(gpu))),
    }


def _sources(gpu: Gpu) -> Iterator[str]:
    """Yield the source of each figure of a GPU."""
    figures = (gpu.memory_bandwidth, gpu.power, gpu.memory, *gpu.peak.values())
    for figure in (*figures, gpu.compute_capability, gpu.network, gpu.nvlink, gpu.pcie):
        if figure is not None:
            yield figure.source


def _link(link: Link) -> Row:
    return {
        "name": link.name,
        "description": link.description,
        "rate": human(link.rate.value, RATE),
        "achievable": f"{link.achievable.value:.0%}",
        "latency": human(link.latency.value, TIME),
        "source": "; ".join(
            dict.fromkeys([link.rate.source, link.achievable.source, link.latency.source])
        ),
    }


def _node(node: Node) -> Row:
    return {
        "name": node.name,
        "description": node.description,
        "GPUs": f"{node.gpus} x {node.gpu.name}",
        "network cards": f"{node.nics.count} x {node.nics.link.name}",
    }


def _models() -> list[Row]:
    built = [build_model(name) for name in MODELS]
    return [
        {
            "name": model.name,
            "parameters": f"{model.parameters:,}",
            "forward FLOP": f"{model.forward_flop:.3g}",
            "tensors": len(model.tensors.elements),
            "sample": model.sample,
        }
        for model in built
    ]


def _algorithms() -> list[Row]:
    return [
        {
            "operation": one.operation,
            "name": one.name,
            "description": one.description,
            "source": one.source,
        }
        for one in ALGORITHMS
    ]


# The values are functions, so that only the requested catalogue is read or built.
CATALOGUES: Registry[Callable[[], list[Row]]] = Registry(
    "catalogue",
    {
        "gpus": lambda: [_gpu(gpus()[name]) for name in gpus()],
        "links": lambda: [_link(links()[name]) for name in links()],
        "nodes": lambda: [_node(nodes()[name]) for name in nodes()],
        "models": _models,
        "algorithms": _algorithms,
    },
)

# Look-ups of an entry by any of its names.
_BY_ALIAS: dict[str, Callable[[], Mapping[str, Gpu] | Mapping[str, Link] | Mapping[str, Node]]] = {
    "gpus": gpus,
    "links": links,
    "nodes": nodes,
}


def short(row: Row) -> Row:
    """Return the part of a row that fits a line: without prose, sources and lists of peaks."""
    # A row of an algorithm would be empty without its description.
    prose = {"source"} if "operation" in row else {"source", "description", "peak"}
    return {heading: value for heading, value in row.items() if heading not in prose}


def find_rows(kind: str, text: str) -> list[Row]:
    """Return a catalogue's rows with ``text`` in their names, or the one with it as an alias.

    Raises UnknownNameError if there is none.
    """
    rows = CATALOGUES[kind]()
    matches = [row for row in rows if text.lower() in row["name"]]
    if not matches and kind in _BY_ALIAS:
        name = _BY_ALIAS[kind]()[text].name
        matches = [row for row in rows if row["name"] == name]
    if not matches:
        raise UnknownNameError(kind.removesuffix("s"), text, (row["name"] for row in rows))
    return matches

"""Words on hardware as a scenario's ``cluster``: GPUs, nodes and the cards between them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpsim.hardware import Gpu, gpu_named_in, links, nodes
from dpsim.imports import machine_for
from dpsim.network.libraries.nccl import node_cards
from validate.published.tables.columns import constants_file
from validate.published.tables.csv_file import NotPredictedError

SETTINGS = "tables/machines.yaml"
Cards = dict[str, Any]  # the network's ``nic`` and ``nics_per_node``; none for the machine's own
_FULL_NODE = 8  # GPUs that makers put into a machine of NVLinks


def gpu_in(words: str) -> Gpu:
    """The catalogue's GPU that a table means; raises NotPredictedError where it lacks it."""
    found = gpu_named_in(_settings()["gpus"].get(words.casefold().strip(), words))
    if found is None:
        raise NotPredictedError(f"no such GPU in the catalogue: {words}")
    return found


def machine_of(gpu: Gpu, per_node: int, words: str = "") -> str:
    """The node that a table's ``words`` name, or the one that such GPUs are usually in.

    Raises NotPredictedError where the catalogue has none with so many.
    """
    named = [name for name in nodes().named_in(words) if nodes()[name].gpu.name == gpu.name]
    if named:
        return named[0]
    name = machine_for(gpu.name, per_node)
    if gpu.nvlink_fabric is not None and nodes()[name].gpu.name != gpu.name:
        # A machine that is filled in part is still the maker's, which has eight.
        name = machine_for(gpu.name, max(per_node, _FULL_NODE))
    if nodes()[name].gpus < per_node:
        raise NotPredictedError(f"no node in the catalogue with {per_node} {gpu.name}")
    return name


def cluster_of(
    gpu: Gpu, placement: Sequence[int], cards: Mapping[str, Any] | None = None, words: str = ""
) -> dict[str, Any]:
    """The cluster of so many GPUs on each of its nodes.

    ``cards`` join the nodes, the machine's own without any.
    """
    fullest, ranks = max(placement), sum(placement)
    node = machine_of(gpu, fullest, words)
    network = {"fabric": "single-switch", **(cards or {})}
    joined = _nvlink_domain(node, gpu, ranks)
    if joined:
        placement = (joined,) * (ranks // joined)
    elif len(set(placement)) > 1:
        groups = [
            {"nodes": placement.count(each), "node": node, "gpu": gpu.name, "gpus_per_node": each}
            for each in sorted(set(placement), reverse=True)
        ]
        return {"groups": groups, "network": network}
    cluster = {
        "nodes": len(placement),
        "node": node,
        "gpu": gpu.name,
        "gpus_per_node": placement[0],
    }
    return cluster if len(placement) == 1 else {**cluster, "network": network}


def even_placement(gpus_in_all: int, node_count: int) -> tuple[int, ...]:
    """Equal shares of the GPUs; raises NotPredictedError where there are none."""
    each, rest = divmod(gpus_in_all, node_count)
    if rest or not each:
        raise NotPredictedError(f"uneven nodes: {gpus_in_all} GPUs on {node_count}")
    return (each,) * node_count


def cards_in(words: str, gpu: Gpu, per_node: int) -> Cards:
    """The cards that join nodes, by what a table says of a network; none where it says nothing."""
    kind, count, bits = node_cards(words, gpu, per_node)
    return {} if kind == "unknown" else cards_of(kind, bits / 1e9, count, per_node)


def cards_of(kind: str, gbit: float, count: int, per_node: int) -> Cards:
    """``count`` cards of one kind of network and of this rate each."""
    if gbit > _settings()["fastest_card"]:
        gbit, count = gbit * count / per_node, per_node
    known: Mapping[str, str] = _settings()["cards"][kind]
    rate, link = min(
        ((float(rate), link) for rate, link in known.items()),
        key=lambda entry: abs(math.log(entry[0] / gbit)),
    )
    if rate == gbit:
        return {"nic": link, "nics_per_node": count}
    like = links()[link]
    other = {"rate": gbit * 1e9 / 8, "latency": like.latency.value, "achievable": like.achievable}
    inline = {name: getattr(value, "value", value) for name, value in other.items()}
    return {"nic": {"name": f"{link} at {gbit:g} Gbit/s", **inline}, "nics_per_node": count}


def cards_by_kind(kind: str, gbit: float | None, count: float | None, per_node: int) -> Cards:
    """The cards by columns of their own; none where kind, rate or number is not stated."""
    known = _settings()["kinds"].get(kind)
    if known is None or gbit is None or count is None:
        return {}
    return cards_of(known, gbit, int(count), per_node)


def cards_together(gbit: float | None) -> Cards:
    """The cards of a node of which only the rate together is stated, if at all."""
    if gbit is None:
        return {}
    cards = {"nic": "roce-100g", "nics_per_node": max(round(gbit / 100), 1)}
    found: Cards = _settings()["together"].get(str(round(gbit)), cards)
    return found


def _nvlink_domain(node: str, gpu: Gpu, ranks: int) -> int | None:
    """GPUs that share one NVLink domain, where that is a rack which is filled evenly."""
    most = nodes()[node].gpus
    if most <= 2 * _FULL_NODE or gpu.nvlink_fabric is None:
        return None
    return next(each for each in range(min(most, ranks), 0, -1) if ranks % each == 0)


def _settings() -> dict[str, Any]:
    return constants_file(SETTINGS)

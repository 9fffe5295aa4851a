"""Descriptions of hardware as a scenario's ``cluster``: GPUs, nodes and their network cards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from dpsim.hardware import Gpu, gpu_named_in, links, nodes
from dpsim.imports.first_scenario import machine_for
from dpsim.network.libraries.nccl import node_cards
from validate.published.tables.csv_file import NotPredictedError
from validate.published.tables.packaged import constants_file

SETTINGS = "tables/machines.yaml"
Cards = dict[str, Any]  # the network's ``nic`` and ``nics_per_node``; empty for the machine's own
_FULL_NODE = 8  # GPUs of a vendor's machine with NVLink


def gpu_in(words: str) -> Gpu:
    """Return the catalogue's GPU that a table means; raises NotPredictedError if it lacks it."""
    found = gpu_named_in(_settings()["gpus"].get(words.casefold().strip(), words))
    if found is None:
        raise NotPredictedError(f"no such GPU in the catalogue: {words}")
    return found


def machine_of(gpu: Gpu, per_node: int, words: str = "") -> str:
    """Return the node that a table's ``words`` name, or the usual one of such GPUs.

    Raises NotPredictedError if no node of the catalogue has so many.
    """
    named = [name for name in nodes().named_in(words) if nodes()[name].gpu.name == gpu.name]
    if named:
        return named[0]
    name = machine_for(gpu.name, per_node)
    if gpu.nvlink_fabric is not None and nodes()[name].gpu.name != gpu.name:
        # A partly filled machine is still the vendor's, which has eight GPUs.
        name = machine_for(gpu.name, max(per_node, _FULL_NODE))
    if nodes()[name].gpus < per_node:
        raise NotPredictedError(f"no node in the catalogue with {per_node} {gpu.name}")
    return name


def cluster_of(
    gpu: Gpu, placement: Sequence[int], cards: Mapping[str, Any] | None = None, words: str = ""
) -> dict[str, Any]:
    """Return the cluster with the given number of GPUs on each of its nodes.

    ``cards`` connect the nodes; without them, the machine's own do.
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
    """Return equal shares of the GPUs; raises NotPredictedError if they do not divide."""
    each, rest = divmod(gpus_in_all, node_count)
    if rest or not each:
        raise NotPredictedError(f"uneven nodes: {gpus_in_all} GPUs on {node_count}")
    return (each,) * node_count


def cards_in(words: str, gpu: Gpu, per_node: int) -> Cards:
    """Return the cards that connect nodes, from a network's description; empty if unknown."""
    kind, count, bits = node_cards(words, gpu, per_node)
    return {} if kind == "unknown" else cards_of(kind, bits / 1e9, count, per_node)


def cards_of(kind: str, gbit: float, count: int, per_node: int) -> Cards:
    """Return ``count`` cards of one kind of network and of this rate each."""
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
    """Return the cards from separate columns; empty if kind, rate or number is not stated."""
    known = _settings()["kinds"].get(kind)
    if known is None or gbit is None or count is None:
        return {}
    return cards_of(known, gbit, int(count), per_node)


def cards_together(gbit: float | None) -> Cards:
    """Return the cards of a node from their total rate; empty if it is not stated."""
    if gbit is None:
        return {}
    cards = {"nic": "roce-100g", "nics_per_node": max(round(gbit / 100), 1)}
    found: Cards = _settings()["together"].get(str(round(gbit)), cards)
    return found


def _nvlink_domain(node: str, gpu: Gpu, ranks: int) -> int | None:
    """Return the number of GPUs that share one NVLink domain, if it is an evenly filled rack."""
    most = nodes()[node].gpus
    if most <= 2 * _FULL_NODE or gpu.nvlink_fabric is None:
        return None
    return next(each for each in range(min(most, ranks), 0, -1) if ranks % each == 0)


def _settings() -> dict[str, Any]:
    return constants_file(SETTINGS)

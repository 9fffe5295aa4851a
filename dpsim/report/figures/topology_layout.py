"""The places of a cluster's devices in a picture.

The fabric is on top in tiers, nodes side by side below, devices in rows.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass

import networkx as nx

Point = tuple[float, float]
Frame = tuple[float, float, float, float]  # left, bottom, right, top
Graph = nx.DiGraph  # its nodes are device names: node3/gpu0, leaf1

# From the top of a node to its bottom: network cards near the fabric, sockets above their switches.
# NVSwitches are under the GPUs, so that their links do not cross PCIe links.
_ROWS = {"nic": 0.0, "cpu": -1.2, "pcie-switch": -2.2, "gpu": -3.6, "nvswitch": -5.2}
TITLES = {
    "nic": "network card",
    "cpu": "CPU",
    "pcie-switch": "PCIe switch",
    "gpu": "GPU",
    "nvswitch": "NVSwitch",
}
_OTHER_ROW = -2.9
_ARCS = 1.7  # room below the GPUs for the links between them
_MARGIN = 0.7  # between a node's devices and its frame
_BETWEEN_NODES = 1.5
_TIER = 2.6  # height of a tier of the fabric


@dataclass(frozen=True, slots=True)
class Layout:
    """The places of the drawn devices, and the frame of each node."""

    places: dict[str, Point]
    frames: dict[str, Frame]


def both_directions(
    graph: Graph[str], places: Container[str]
) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
    """Yield the ends of each link whose two ends have places, and its directions."""
    seen: set[tuple[str, str]] = set()
    for a, b in graph.edges:
        if (b, a) not in seen and a in places and b in places:
            seen.add((a, b))
            yield a, b, [way for way in ((a, b), (b, a)) if graph.has_edge(*way)]


def node_of(device: str) -> str | None:
    """Return ``node3`` for ``node3/gpu0``, None for a switch of the fabric."""
    node, slash, _ = device.partition("/")
    return node if slash else None


def layout(graph: Graph[str], most_nodes: int) -> Layout:
    """Return places for the first ``most_nodes`` nodes of ``graph`` and the switches above them."""
    nodes: dict[str, list[str]] = {}
    for device in graph:
        node = node_of(device)
        if node is not None:
            nodes.setdefault(node, []).append(device)

    places: dict[str, Point] = {}
    frames: dict[str, Frame] = {}
    left = 0.0
    for node in sorted(nodes, key=_number)[:most_nodes]:
        inside = _inside(graph, nodes[node])
        for device, (x, y) in inside.items():
            places[device] = (left + x, y)
        width = max(x for x, _ in inside.values())
        lowest = min(y for _, y in inside.values())
        # Leave room below the GPUs for links between them; a glyph for a whole node has no links.
        bottom = lowest if len(inside) == 1 else min(lowest, _ROWS["gpu"] - _ARCS + _MARGIN)
        frames[node] = (left - _MARGIN, bottom - _MARGIN, left + width + _MARGIN, _MARGIN)
        left += width + _BETWEEN_NODES + 0.9

    _add_fabric(graph, places, whole=len(nodes) <= most_nodes)
    return Layout(places, frames)


def _number(name: str) -> tuple[str, int]:
    """Return a sort key by numbers in names: gpu2 before gpu10."""
    head = name.rstrip("0123456789")
    return head, int(name[len(head) :] or 0)


def _inside(graph: Graph[str], devices: list[str]) -> dict[str, Point]:
    """Return places in one node.

    GPUs in order, switches above the devices below them, sockets above those, cards above their
    slots.
    """
    rows: dict[str, list[str]] = {}
    for device in sorted(devices, key=lambda name: _number(name.partition("/")[2])):
        kind = graph.nodes[device].get("kind", "other")
        rows.setdefault(kind, []).append(device)
    others = [kind for kind in rows if kind not in _ROWS]

    heights = dict(_ROWS)
    for number, kind in enumerate(others):
        heights[kind] = _OTHER_ROW - 0.1 * number

    places: dict[str, Point] = {}
    # Place GPUs first, because readers look for them in order; each row is placed relative to the
    # rows before it.
    for kind in ("gpu", "pcie-switch", "cpu", "nvswitch", "nic", *others):
        row = rows.get(kind, [])
        if kind == "gpu":
            wanted = [float(number) for number in range(len(row))]
        else:
            wanted = [_over(graph, places, device, number) for number, device in enumerate(row)]
        gap = 0.8 if kind == "nic" else 1.0
        for x, device in zip(_spread(wanted, gap), row, strict=True):
            places[device] = (x, heights[kind])

    least = min(x for x, _ in places.values())
    return {device: (x - least, y) for device, (x, y) in places.items()}


def _add_fabric(graph: Graph[str], places: dict[str, Point], *, whole: bool) -> None:
    """Place switches tier by tier above the drawn network cards, each over its neighbours."""
    right = max((x for x, _ in places.values()), default=0.0)
    for height, tier in enumerate(_tiers(graph, places, whole=whole), 1):
        # A row of few switches over many nodes spreads with the width below it.
        gap = max(1.6, 0.6 * right / len(tier))
        wanted = {switch: _over(graph, places, switch, default=right + gap) for switch in tier}
        # Means that differ only by rounding are equal, or the order of names would change.
        rounded = {switch: round(x, 6) for switch, x in wanted.items()}
        row = sorted(tier, key=lambda switch: (rounded[switch], _number(switch)))
        xs = [wanted[switch] for switch in row]
        # All spines join the same leaves and would be in the middle, so spread them over the whole
        # width.
        if len(row) > 1 and max(xs) - min(xs) < 1e-6 * max(right, 1.0):
            xs = [right * (i + 1) / (len(row) + 1) for i in range(len(row))]
        for x, switch in zip(_spread(xs, gap), row, strict=True):
            places[switch] = (x, 0.6 + height * _TIER)


def _tiers(graph: Graph[str], places: dict[str, Point], *, whole: bool) -> list[list[str]]:
    """Return switches by their hops from the network cards.

    Switches without a drawn card are placed beside others of their kind, if all nodes are drawn.
    """
    tiers: list[list[str]] = []
    tier_of_kind: dict[str, int] = {}
    seen: set[str] = set()
    cards = [device for device in places if graph.nodes[device].get("kind") == "nic"]
    switches = _adjacent_switches(graph, cards, seen)
    while switches:
        seen.update(switches)
        new = []
        for switch in switches:
            # A spine also leads to leaves of nodes that are not drawn, which belong to the tier of
            # leaves instead of one above the spines.
            kind, _ = _number(switch)
            tier = tier_of_kind.setdefault(kind, len(tiers))
            if tier == len(tiers):
                new.append(switch)
            elif whole:
                tiers[tier].append(switch)
        if new:
            tiers.append(new)
        switches = _adjacent_switches(graph, switches, seen)
    return tiers


def _adjacent_switches(graph: Graph[str], devices: list[str], seen: set[str]) -> list[str]:
    """Return the fabric's switches next to any of ``devices``, without those already seen."""
    # A dict keeps the order of the graph, which decides between switches with equal places.
    switches: dict[str, None] = {}
    for device in devices:
        for other in graph[device]:
            if node_of(other) is None and other not in seen:
                switches[other] = None
    return list(switches)


def _over(graph: Graph[str], places: dict[str, Point], device: str, default: float) -> float:
    """Return the middle of the placed neighbours of ``device``."""
    joined = [places[other][0] for other in graph[device] if other in places]
    if not joined:
        return float(default)
    return sum(joined) / len(joined)


def _spread(wanted: list[float], gap: float) -> list[float]:
    """Return places in the given order, near those ``wanted`` and at least ``gap`` apart.

    The whole row keeps its middle.
    """
    if not wanted:
        return []
    # Each device is as near to its wanted place as the device before it allows. This only moves
    # devices to the right, so the shift moves all of them back by the mean.
    order = sorted(range(len(wanted)), key=lambda i: (wanted[i], i))
    placed = [0.0] * len(wanted)
    last = float("-inf")
    for i in order:
        last = max(wanted[i], last + gap)
        placed[i] = last
    shift = (sum(wanted) - sum(placed)) / len(wanted)
    return [x + shift for x in placed]

"""The description of a node: devices, the links between them, and network card slots."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from fnmatch import translate
from functools import cache, lru_cache
from itertools import combinations, product
from typing import Annotated

from pydantic import (
    Field,
    ModelWrapValidatorHandler,
    PositiveInt,
    model_validator,
)

from dpsim.base.config import Config
from dpsim.base.errors import UnknownNameError
from dpsim.hardware.catalogue import Catalogue, by_name
from dpsim.hardware.gpu import GpuRef
from dpsim.hardware.link import Link, LinkRef
from dpsim.hardware.sourced import SourcedRate

# A digit at the end would make "gpu1" + "0" and "gpu" + "10" the same name.
_KIND = re.compile(r"[a-z](?:[a-z0-9-]*[a-z])?")
MOST_DEVICES = 1024  # per node, so that a typing error does not fill the memory


class Edge(Config):
    """Links from each device that matches the first pattern to each that matches the second."""

    between: tuple[str, str] = Field(
        description=(
            "Two patterns of device names: gpu0, cpu*, gpu[0-3]. A pair that matches in both "
            "orders is joined once."
        )
    )
    link: LinkRef = Field(description="A link of the catalogue, or its description.")
    count: PositiveInt = Field(
        default=1, le=MOST_DEVICES, description="Number of parallel links, used as one."
    )


class Nics(Config):
    """A node's network cards."""

    link: LinkRef = Field(
        description="The network link of each card: a link of the catalogue, or its description."
    )
    count: PositiveInt = Field(default=1, le=MOST_DEVICES, description="Number of cards.")
    burst: SourcedRate | None = Field(
        default=None,
        description=(
            "Burst rate of a card in B/s, if a cloud guarantees the link's rate and allows bursts "
            "of some minutes. Runs are longer, so the link's rate is used."
        ),
    )


def device_kind(device: str) -> str:
    """Return ``gpu`` for ``gpu0``, or for ``node3/gpu0``."""
    # No kind ends in a digit (`_KIND`), so the rest is the kind.
    return device.rpartition("/")[2].rstrip("0123456789")


class Node(Config):
    """One machine: its devices, and the full-duplex links between them.

    A device is named kind and number: gpu0, pcie-switch1.
    """

    name: str = Field(default="inline", description="Name in the catalogue.")
    aliases: tuple[str, ...] = Field(default=(), description="Other names.")
    description: str = Field(default="", description="Description, and pitfalls.")
    gpu: GpuRef = Field(description="Kind of GPU: a catalogue name, or its description.")
    devices: dict[str, Annotated[int, Field(ge=1, le=MOST_DEVICES)]] = Field(
        description="Number of devices of each kind: {gpu: 8, pcie-switch: 4, cpu: 2}."
    )
    edges: tuple[Edge, ...] = Field(default=(), description="The links between the devices.")
    capacities: dict[str, SourcedRate] = Field(
        default={},
        description="Limit in B/s on the total traffic through one device of a kind (CPU memory).",
    )
    in_network_reduction: tuple[str, ...] = Field(
        default=(),
        description="The kinds of devices that reduce and multicast data (NVSwitches with NVLS).",
    )
    nic_slots: tuple[str, ...] = Field(
        min_length=1, description="The devices that network cards attach to, in order."
    )
    nic_bus: LinkRef = Field(description="The link between a network card and its slot.")
    nics: Nics = Field(description="The network cards, unless the scenario's network names others.")

    @model_validator(mode="wrap")
    @classmethod
    def _check_node(cls, given: object, read: ModelWrapValidatorHandler[Node]) -> Node:
        node = read(given)
        if node is not given:  # a catalogue entry has already been checked
            _check_kinds(node)
            for slot in node.nic_slots:
                if slot not in (devices := node.device_names()):
                    raise UnknownNameError("device of the node", slot, devices)
            _check_connected(node)
        return node

    @property
    def gpus(self) -> int:
        """The number of GPUs of the node."""
        return self.devices["gpu"]

    def device_names(self) -> list[str]:
        """Return all devices by kind: gpu0, gpu1, ..., cpu0, ..."""
        return [
            f"{kind}{index}" for kind, number in self.devices.items() for index in range(number)
        ]

    def capacity(self, device: str) -> float | None:
        """Return the limit in B/s of the total traffic through ``device``, if there is one."""
        found = self.capacities.get(device_kind(device))
        return None if found is None else found.value

    def expand_edges(self) -> list[tuple[str, str, Link, int]]:
        """Return each linked pair of devices once: both names, the link, its multiplicity."""
        return [(a, b, edge.link, edge.count) for (a, b), edge in _joined(self).items()]

    def nic_edges(self, count: int | None = None) -> list[tuple[str, str, Link, int]]:
        """Return the buses of ``count`` (or the node's) network cards: (nic0, its slot, link, 1).

        Fewer cards than slots are spread evenly over the slots; more use the slots in turn.
        """
        number = self.nics.count if count is None else count
        slots = len(self.nic_slots)
        if number < slots:
            card_slots = [card * slots // number for card in range(number)]
        else:
            card_slots = [card % slots for card in range(number)]
        return [
            (f"nic{card}", self.nic_slots[slot], self.nic_bus, 1)
            for card, slot in enumerate(card_slots)
        ]

    def __repr__(self) -> str:
        return f"<Node {self.name}: {self.gpus} x {self.gpu.name}>"

    __str__ = __repr__


def _joined(node: Node) -> dict[tuple[str, str], Edge]:
    """Return the edge between each pair of devices that has one.

    Raises ValueError if an edge matches no pair or two edges the same.
    """
    devices = node.device_names()
    joined: dict[tuple[str, str], Edge] = {}
    for edge in node.edges:
        pairs = _pairs(edge.between, devices)
        for a, b in pairs:
            if (a, b) in joined or (b, a) in joined:
                raise ValueError(
                    f"edges must join a pair of devices once (count says how many links), but {a} "
                    f"and {b} are joined twice"
                )
            joined[a, b] = edge
    return joined


@lru_cache(maxsize=256)
def _matcher(pattern: str) -> Callable[[str], object]:
    """Return a predicate for the names that match a shell-style ``pattern``."""
    return re.compile(translate(pattern)).match


def _pairs(between: tuple[str, str], devices: list[str]) -> list[tuple[str, str]]:
    first, second = (list(filter(_matcher(pattern), devices)) for pattern in between)
    for pattern, matches in zip(between, (first, second), strict=True):
        if not matches:
            raise UnknownNameError("device of the node", pattern, devices)
    # A dict, because edges are numbered in this order.
    pairs: dict[tuple[str, str], None] = {}
    for a, b in product(first, second):
        if a != b and (b, a) not in pairs:
            pairs[a, b] = None
    if not pairs:
        raise ValueError(
            f"edges must join two devices, but {between[0]!r} and {between[1]!r} are the same one"
        )
    return list(pairs)


def _check_kinds(node: Node) -> None:
    for kind in node.devices:
        if not _KIND.fullmatch(kind) or kind == "nic":
            raise ValueError(
                "devices must be of kinds in lower case that do not end in a digit, and not nic "
                f"(see nics), but got {kind!r}"
            )
    if sum(node.devices.values()) > MOST_DEVICES:
        raise ValueError(
            f"devices must be at most {MOST_DEVICES:,} in all, but got "
            f"{sum(node.devices.values()):,}"
        )
    if "gpu" not in node.devices:
        raise ValueError("devices must have at least 1 gpu, but got none")
    for kind in (*node.capacities, *node.in_network_reduction):
        if kind not in node.devices:
            raise UnknownNameError("kind of device of the node", kind, node.devices)


def _check_connected(node: Node) -> None:
    neighbours: dict[str, list[str]] = {device: [] for device in node.device_names()}
    for a, b in _joined(node):
        neighbours[a].append(b)
        neighbours[b].append(a)
    component = _components(neighbours, without=())
    isolated = [device for device in neighbours if component[device] != component["gpu0"]]
    if isolated:
        raise ValueError(
            f"edges must connect every device, but nothing joins {', '.join(isolated[:8])} to gpu0"
        )
    _check_paths(node, neighbours)


def _check_paths(node: Node, neighbours: dict[str, list[str]]) -> None:
    """Raise ValueError if a GPU reaches another or a slot only through GPUs: they don't forward."""
    gpus = {f"gpu{i}": None for i in range(node.gpus)}
    # The connected components of the node without its GPUs. Two GPUs are connected if they have a
    # link, or links to the same component.
    component = _components(neighbours, without=gpus)
    adjacent = {
        gpu: {component[other] for other in neighbours[gpu] if other in component} for gpu in gpus
    }
    unreachable = [
        (a, b)
        for a, b in combinations(gpus, 2)
        if b not in neighbours[a] and not adjacent[a] & adjacent[b]
    ]
    unreachable += [
        (gpu, slot)
        for gpu, slot in product(gpus, node.nic_slots)
        if gpu != slot and component.get(slot) not in adjacent[gpu]
    ]
    if unreachable:
        a, b = unreachable[0]
        raise ValueError(
            f"edges must leave a path from {a} to {b} that passes through no other GPU, but there "
            "is none"
        )


def _components(neighbours: dict[str, list[str]], without: Collection[str]) -> dict[str, int]:
    """Return the connected component, a number, of each device in the graph ``without`` some."""
    component: dict[str, int] = {}
    for first in neighbours:
        stack = [] if first in component or first in without else [first]
        while stack:
            device = stack.pop()
            # A new component is numbered by the devices so far: no other has that number.
            component[device] = component.get(first, len(component))
            stack += [
                other
                for other in neighbours[device]
                if other not in component and other not in without
            ]
    return component


@cache
def nodes() -> Catalogue[Node]:
    """Return the nodes of the catalogue, by name or alias."""
    return Catalogue("node", "nodes", Node)


# A field that accepts a catalogue name, a node file's path (relative to the scenario) or a node's
# description, and holds the Node.
NodeRef = Annotated[Node, by_name(nodes, Node, also_files=True)]

"""A draft of a node: a PCIe tree with NVLinks over it, and its text as a file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations, groupby
from textwrap import wrap
from typing import Literal

import networkx as nx

from dpsim.hardware import Node, gpus
from dpsim.imports.options import Choice

_REDUCING_CAPABILITY = 90  # the first whose NVSwitches reduce and multicast (NVLink SHARP)
Pairs = dict[tuple[int, int], int]  # (lower GPU, higher GPU) -> number of NVLinks


@dataclass(slots=True)
class Part:
    """A device in the PCIe tree.

    ``index`` counts GPUs and network cards; ``up`` is the link to the device above.
    """

    kind: Literal["cpu", "pcie-switch", "gpu", "nic"]
    index: int = -1
    up: str = ""
    parts: list[Part] = field(default_factory=list)

    def first(self) -> tuple[int, int]:
        """Return a sort key: the lowest GPU below, then the lowest network card."""
        leaves = list(self.leaves())
        gpus = [leaf.index for leaf in leaves if leaf.kind == "gpu"]
        cards = [leaf.index for leaf in leaves if leaf.kind == "nic"]
        # Devices without any come last.
        return (min(gpus, default=2**30), min(cards, default=2**30))

    def leaves(self) -> Iterator[Part]:
        """Yield the GPUs and network cards below, or the device itself if it is one."""
        if self.kind in ("gpu", "nic"):
            yield self
        for part in self.parts:
            yield from part.leaves()


@dataclass(frozen=True, slots=True)
class NvLinks:
    """The GPUs connected by NVLink: pairs directly, or all by switches.

    ``planes`` lists the planes of switches, with the links of each GPU to them.
    """

    pairs: Pairs
    planes: list[dict[int, int]]  # of each plane: GPU -> links


@dataclass(frozen=True, slots=True)
class NodeDraft:
    """A node in the catalogue's terms, with all its assumptions.

    ``edges`` are (one, other, link, count).
    """

    origin: str
    gpu: Choice
    links: list[Choice]
    devices: dict[str, int]
    edges: list[tuple[str, str, str, int]]
    nic_slots: list[str]
    nic_bus: Choice
    nic: Choice
    nics: int
    notes: list[str]

    def sources(self) -> list[str]:
        """Return the source of each part.

        Such as ``gpu v100-sxm2-16gb: assumed: 6 NVLinks at a GPU``; links written out contain
        theirs.
        """
        named = [link for link in self.links if not link.value.startswith("{")]
        cards = (
            []
            if self.nic.value.startswith("{")
            else [f"network cards {self.nic.value}: {self.nic.source}"]
        )
        links = [f"{link.value}: {link.source}" for link in named]
        return [
            *dict.fromkeys(
                [f"gpu {self.gpu.value}: {self.gpu.source}", *links, *cards, *self.notes]
            )
        ]

    def assumptions(self) -> list[str]:
        """Return the sources that are assumed or ignored, for checking."""
        return [
            source
            for source in self.sources()
            if "assumed" in source or source.startswith("ignored")
        ]

    def summary(self) -> tuple[list[str], list[str], list[str]]:
        """Return the values taken from the text, the assumptions, and what is ignored."""
        counts = ", ".join(f"{count} {kind}" for kind, count in self.devices.items())
        taken, assumed, ignored = [f"{counts}, and {len(self.edges)} edges between them"], [], []
        for source in self.sources():
            if source.startswith("ignored: "):
                ignored.append(source.removeprefix("ignored: "))
            elif "assumed" not in source:
                taken.append(source)
            elif source.startswith("assumed: "):
                assumed.append(source.removeprefix("assumed: "))
            else:
                what = "computing" if source.startswith("gpu ") else "transfers"
                assumed.append(
                    f"{source.replace(': assumed', '', 1)}: {what} at its catalogue's rates"
                )
        return taken, assumed, ignored

    def to_yaml(self) -> str:
        """Return the node as a file for the catalogue, or for a scenario's ``cluster.node``."""
        described = _plain(
            f"Imported {self.origin}: {self.devices['gpu']} GPUs. {_sentences(self.sources())}"
        )
        lines = [
            f"# A node {_plain(self.origin)}. What that does not say is marked as assumed or "
            "given: check it.",
            "description: >-",
            *(
                f"  {line}"
                for line in wrap(described, 126, break_long_words=False, break_on_hyphens=False)
            ),
            f"gpu: {self.gpu.value}  # {self.gpu.source}",
            f"devices: {{{', '.join(f'{kind}: {count}' for kind, count in self.devices.items())}}}",
            "edges:" if self.edges else "edges: []",
            *(_edge_text(*edge) for edge in self.edges),
            *self._reduction(),
            f"nic_slots: [{', '.join(self.nic_slots)}]",
            f"nic_bus: {self.nic_bus.value}",
            f"nics: {{link: {self.nic.value}, count: {self.nics}}}",
        ]
        return "\n".join(lines) + "\n"

    def _reduction(self) -> Iterator[str]:
        """Yield a line for NVSwitches that reduce and multicast, from Hopper on."""
        capability = gpus()[self.gpu.value].capability or 0
        if "nvswitch" in self.devices and capability >= _REDUCING_CAPABILITY:
            yield "in_network_reduction: [nvswitch]"

    def to_node(self) -> Node:
        """Return the node of this draft."""
        from ruamel.yaml import YAML  # slow to import

        return Node.model_validate(YAML(typ="safe", pure=True).load(self.to_yaml()))


def _sentences(texts: Iterable[str]) -> str:
    return " ".join(f"{text.rstrip('.')}." for text in texts)


def _plain(text: str) -> str:
    """Return ``text`` with a ? for each character that YAML comments or text cannot hold.

    Names come from untrusted files.
    """
    return "".join(char if " " <= char <= "~" else "?" for char in text)


def _edge_text(a: str, b: str, link: str, count: int) -> str:
    # A star would begin a YAML alias, a bracket a list.
    ends = ", ".join(f'"{end}"' if set(end) & set("*[") else end for end in (a, b))
    return f"  - {{between: [{ends}], link: {link}{f', count: {count}' if count > 1 else ''}}}"


def draft_node(
    origin: str,
    sockets: list[Part],
    nvlinks: NvLinks,
    gpu: Choice,
    nvlink: Choice,
    between_sockets: Choice,
    pcie: list[Choice],
    nic_bus: Choice,
    nic: Choice,
    notes: list[str],
) -> NodeDraft:
    """Return the node of ``sockets``, trees of PCIe devices, with ``nvlinks`` between GPUs."""
    sockets = sorted(sockets, key=Part.first)
    names, slots, tree_edges = _walk(sockets)
    gpus = sum(leaf.kind == "gpu" for socket in sockets for leaf in socket.leaves())
    cpus = len(sockets)
    edges = _nvlink_edges(nvlinks, nvlink.value, gpus) + _group_edges(tree_edges, {"gpu": gpus})
    edges += [
        (f"cpu{a}", f"cpu{b}", between_sockets.value, 1) for a, b in combinations(range(cpus), 2)
    ]
    switches = sum(name.startswith("pcie-switch") for name in names)
    devices = {"gpu": gpus, "nvswitch": len(nvlinks.planes), "pcie-switch": switches, "cpu": cpus}
    if not slots:
        slots = ["cpu0"]
        notes = [*notes, "assumed: one network card, on the first socket, since none is listed"]
    # Links of omitted bridges are in no edge, and need no source.
    carried = {link for *_, link, _ in edges} | {nic_bus.value}
    used = [
        *([nvlink] if nvlinks.pairs or nvlinks.planes else []),
        *(link for link in pcie if link.value in carried),
        *([between_sockets] if cpus > 1 else []),
    ]
    kept = {kind: count for kind, count in devices.items() if count}
    return NodeDraft(
        origin, gpu, list(dict.fromkeys(used)), kept, edges, slots, nic_bus, nic, len(slots), notes
    )


def _walk(sockets: list[Part]) -> tuple[list[str], list[str], list[tuple[str, str, str]]]:
    """Return the devices' names, each network card's slot, and the edges (lower, upper, link)."""
    names: list[str] = []
    slots: dict[int, str] = {}
    edges: list[tuple[str, str, str]] = []
    switches = 0

    def visit(part: Part, name: str) -> None:
        nonlocal switches
        names.append(name)
        for below in sorted(part.parts, key=Part.first):
            if below.kind == "nic":
                slots[below.index] = name
            elif below.kind == "gpu":
                edges.append((f"gpu{below.index}", name, below.up))
            else:
                switch = f"pcie-switch{switches}"
                switches += 1
                visit(below, switch)
                edges.append((switch, name, below.up))

    for number, socket in enumerate(sockets):
        visit(socket, f"cpu{number}")
    return names, [slots[card] for card in sorted(slots)], edges


def _group_edges(
    edges: list[tuple[str, str, str]], totals: dict[str, int]
) -> list[tuple[str, str, str, int]]:
    """Return edges from GPUs, then switches; those to one device over one link as a pattern."""
    grouped: list[tuple[str, str, str, int]] = []
    for kind in ("gpu", "pcie-switch"):
        chosen = sorted(
            (upper, link, int(lower.removeprefix(kind)))
            for lower, upper, link in edges
            if lower.startswith(kind)
        )
        for (upper, link), group in groupby(chosen, key=lambda edge: edge[:2]):
            indices = [index for *_, index in group]
            names = _pattern(kind, indices, totals.get(kind))
            grouped += [(name, upper, link, 1) for name in names]
    return grouped


def _pattern(kind: str, indices: list[int], total: int | None = None) -> list[str]:
    """Return patterns for the devices of ``indices``, or their names.

    ``["gpu[01]"]`` for gpu0 and gpu1, ``["gpu*"]`` for all ``total`` of them; separate names if one
    has two digits.
    """
    # Brackets stand for a single character, so they cannot hold two digits.
    if len(indices) == 1 or (len(indices) != total and max(indices) > 9):
        return [f"{kind}{index}" for index in indices]
    return [f"{kind}*"] if len(indices) == total else [f"{kind}[{''.join(map(str, indices))}]"]


def _nvlink_edges(nvlinks: NvLinks, link: str, gpus: int) -> list[tuple[str, str, str, int]]:
    edges: list[tuple[str, str, str, int]] = []
    for number, plane in enumerate(nvlinks.planes):
        for count in sorted(set(plane.values()), reverse=True):
            alike = sorted(gpu for gpu, links in plane.items() if links == count)
            edges += [
                (name, f"nvswitch{number}", link, count) for name in _pattern("gpu", alike, gpus)
            ]
    # A pair is listed at its lower GPU, so that it occurs once.
    for a in sorted({low for low, _ in nvlinks.pairs}):
        partners = sorted((count, b) for (low, b), count in nvlinks.pairs.items() if low == a)
        for count, group in groupby(partners, key=lambda pair: pair[0]):
            names = _pattern("gpu", [b for _, b in group])
            edges += [(f"gpu{a}", name, link, count) for name in names]
    return edges


def merge_sockets(numa: list[int]) -> tuple[list[int], str | None]:
    """Return the socket of each NUMA node in ``numa``, and a note if several share a socket.

    There are at most two: more NUMA nodes than that are parts of sockets on servers with GPUs.
    """
    distinct = sorted(set(numa))
    sockets = min(len(distinct), 2)
    if len(distinct) <= sockets:
        return [distinct.index(number) for number in numa], None
    # NUMA nodes are numbered socket by socket, and those without devices are not listed: the
    # highest number tells how many there are.
    total = -(-(distinct[-1] + 1) // sockets) * sockets
    placed = [number * sockets // total for number in numa]
    order = sorted(set(placed))
    note = f"{len(distinct)} NUMA nodes on {len(order)} sockets (assumed: no server has more)"
    return [order.index(place) for place in placed], note


def nvlink_plan(pairs: Pairs, most: int) -> NvLinks:
    """Decide which NVLinks are direct and which go through switches, by the counts of each pair.

    GPUs that are all connected to each other with more links in sum than a GPU has (``most``) share
    a plane of switches: each GPU has as many links to it as to its best connected peer.
    """
    direct, planes = dict(pairs), []
    for group in sorted(map(sorted, nx.connected_components(nx.Graph(pairs.keys())))):
        inside = {pair: count for pair, count in pairs.items() if pair[0] in group}
        # A GPU's links through switches reach every peer, so each pair counts all of them.
        counts = {gpu: [inside[pair] for pair in inside if gpu in pair] for gpu in group}
        all_joined = len(inside) == len(group) * (len(group) - 1) // 2
        too_many = max(sum(at_a_gpu) for at_a_gpu in counts.values()) > most
        # Two GPUs need no switch, however many links they have.
        if len(group) > 2 and all_joined and too_many:
            planes.append({gpu: max(at_a_gpu) for gpu, at_a_gpu in counts.items()})
            for pair in inside:
                del direct[pair]
    return NvLinks(direct, planes)

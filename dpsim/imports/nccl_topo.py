"""Parse NCCL's topology file (the XML of NCCL_TOPO_DUMP_FILE), and build its node.

``<system>`` contains a ``<cpu>`` for each NUMA node, which contains nested ``<pci>``: bridges, GPUs
(``<gpu>`` with its ``<nvlink>``s) and network cards (``<nic>`` with its ``<net>``s). An element's
link_speed and link_width describe the link to its parent.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from dpsim.hardware import gpus
from dpsim.imports.draft import NodeDraft, NvLinks, Pairs, Part, draft_node, merge_sockets
from dpsim.imports.nccl_topo_names import gpu_of, net_link, pcie_link, smp_link
from dpsim.imports.options import Choice, NodeOptions, surroundings
from dpsim.imports.reading import ImportFileError
from dpsim.imports.xml_tree import Element, parse_xml

_SWITCH_CLASS = "0x068000"
# Broadcom's PCIe switches appear as a bridge under a bridge, which NCCL merges too
# (src/graph/topo.cc, flattening).
_FLATTENED = {("0x1000", "0xc010"), ("0x1000", "0xc030")}
_MOST_DEVICES = 256


@dataclass(slots=True)
class _Found:
    """The GPUs and networks of the file, in order, and its PCIe links."""

    gpus: list[Element]  # the <pci> elements around <gpu>, by dev
    nets: list[Element]  # the <net> elements in use
    assumed_pcie: str
    pcie: dict[str, tuple[float, Choice]] = field(default_factory=dict)

    def link(self, pci: Element, below: str = "") -> str:
        """Return the link of ``pci`` to its parent, or the slower of that and ``below``."""
        rate, choice = pcie_link(pci.attributes, self.assumed_pcie)
        self.pcie.setdefault(choice.value, (rate, choice))
        return below if below and self.pcie[below][0] <= rate else choice.value


def node_from_nccl_topo(content: bytes, options: NodeOptions, file: str = "") -> NodeDraft:
    """Return the node that the XML ``content`` describes.

    Raises ImportFileError with the invalid line.
    """
    root = parse_xml(content)
    if root.tag != "system":
        raise ImportFileError(
            "must be NCCL's topology file, whose outermost element is <system>, but got "
            f"<{root.tag}>",
            root.line,
        )
    holders = _gpu_holders(root)
    # All GPUs of a node are of the first one's kind.
    first = next(holders[0].all("gpu"))
    kind = options.choose(
        "gpu", *(("", "") if options.gpu else gpu_of(holders[0].attributes, first))
    )
    usual = surroundings(gpus()[kind.value])
    nets, notes = _nets(root)
    devices = _Found(holders, nets, usual.pcie)
    sockets, more = _sockets(root, devices)
    nvlinks, unknown = _nvlinks(holders)
    cpu = next(root.all("cpu"))
    return draft_node(
        f"from NCCL's topology file{f' ({file})' if file else ''}",
        sockets,
        nvlinks,
        kind,
        Choice(usual.nvlink, f"assumed: usual with {kind.value}"),
        Choice(*smp_link(cpu.attributes, usual.between_sockets)),
        [choice for _, choice in devices.pcie.values()],
        _nic_bus(devices, root),
        _nic_choice(nets, options, usual.nic, root),
        [*notes, *more, *unknown],
    )


def _gpu_holders(root: Element) -> list[Element]:
    """Return the <pci> elements with a GPU, by its ``dev``, the GPU's number in the node."""
    holders = [pci for pci in root.below("pci") if any(pci.all("gpu"))]
    if not holders:
        raise ImportFileError("must have at least 1 <gpu>, but has none")
    if len(holders) > _MOST_DEVICES:
        raise ImportFileError(f"must have at most {_MOST_DEVICES} <gpu>, but has {len(holders)}")
    holders.sort(key=lambda pci: next(pci.all("gpu")).number("dev"))
    for attribute, names in (
        ("dev", [str(next(pci.all("gpu")).number("dev")) for pci in holders]),
        ("busid", [_busid(pci.text("busid")) for pci in holders]),
    ):
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise ImportFileError(
                f"each GPU must have a {attribute} of its own, but {twice[0]} occurs twice",
                holders[names.index(twice[0])].line,
            )
    return holders


def _busid(text: str) -> str:
    # Compared as text, written with hexadecimal digits of either case.
    return text.lower()


def _nets(root: Element) -> tuple[list[Element], list[str]]:
    """Return the networks in use, all of the highest speed; and notes."""
    nets = list(root.below("net"))
    names = [net.attributes.get("name", "") for net in nets]
    fastest = max((net.number("speed", 1) for net in nets), default=0)
    used = [net for net in nets if net.number("speed", 1) == fastest]
    out = [name for net, name in zip(nets, names, strict=True) if net not in used]
    return used, [
        f"ignored: network cards {', '.join(out)}, since others are faster"
    ] if out else []


def _sockets(root: Element, found: _Found) -> tuple[list[Part], list[str]]:
    cpus = [(cpu, _parts(cpu, found)) for cpu in root.all("cpu")]
    used = [(cpu.number("numaid", -1, 4096), parts) for cpu, parts in cpus if parts]
    numa = [number for number, _ in used]
    if len({*numa}) < len(numa):  # files merged from several hosts repeat NUMA numbers
        raise ImportFileError(
            "each <cpu> must have a numaid of its own: a file of several hosts must be cut into "
            "one for each"
        )
    if not used:
        raise ImportFileError("each <gpu> must be in a <cpu>, but none is")
    place, note = merge_sockets([max(number, 0) for number in numa])
    sockets = [Part("cpu") for _ in range(max(place) + 1)]
    for socket, (_, parts) in zip(place, used, strict=True):
        sockets[socket].parts += parts
    placed = sum(leaf.kind == "gpu" for socket in sockets for leaf in socket.leaves())
    if placed < len(found.gpus):
        raise ImportFileError("each <gpu> must be in a <cpu>, but one is not")
    return sockets, [note] if note else []


def _parts(element: Element, found: _Found) -> list[Part]:
    """Return the parts below a CPU or a bridge, without bridges that lead to nothing in use."""
    parts = [
        Part("nic", found.nets.index(net), "")
        for nic in element.all("nic")
        for net in nic.all("net")
        if net in found.nets
    ]
    for pci in element.all("pci"):
        if pci in found.gpus:
            parts.append(Part("gpu", found.gpus.index(pci), found.link(pci)))
            continue
        below = _parts(pci, found)
        if _chip(pci) in _FLATTENED and _chip(pci) == _chip(element):
            parts += below
        elif all(part.kind == "nic" for part in below):
            parts += below  # a network card, or a bridge to network cards only
        # A bridge to a single device is part of its route, where the slower link counts.
        elif len(below) == 1:
            below[0].up = found.link(pci, below[0].up)
            parts += below
        else:
            parts.append(Part("pcie-switch", up=found.link(pci), parts=below))
    return parts


def _chip(element: Element) -> tuple[str, str]:
    return element.attributes.get("vendor", ""), element.attributes.get("device", "")


def _nvlinks(holders: list[Element]) -> tuple[NvLinks, list[str]]:
    """Return NVLinks between GPUs and to NVSwitches, and a note on those that lead elsewhere.

    Links to NVSwitches are summed as one plane.
    """
    index_of = {_busid(pci.text("busid")): index for index, pci in enumerate(holders)}
    pairs: Pairs = {}
    plane: dict[int, int] = {}
    elsewhere = 0
    for index, pci in enumerate(holders):
        for link in next(pci.all("gpu")).all("nvlink"):
            count, target = link.number("count", 1, 64), index_of.get(_busid(link.text("target")))
            if link.attributes.get("tclass", "").lower().startswith(_SWITCH_CLASS):
                plane[index] = plane.get(index, 0) + count
            elif target is None or target == index:
                elsewhere += count
            else:
                # The link is listed at both of its ends, each time with the whole count.
                pair = (min(index, target), max(index, target))
                pairs[pair] = max(pairs.get(pair, 0), count)
    note = (
        [f"ignored: {elsewhere} NVLinks to devices that the file does not list"]
        if elsewhere
        else []
    )
    return NvLinks(pairs, [plane] if plane else []), note


def _nic_bus(found: _Found, root: Element) -> Choice:
    """Return the link of the first card's own <pci>.

    The assumed one if the card has none, such as a virtual card.
    """
    for pci in root.below("pci"):
        for nic in pci.all("nic"):
            if any(net in found.nets for net in nic.all("net")):
                return pcie_link(pci.attributes, found.assumed_pcie)[1]
    return Choice(found.assumed_pcie, "assumed")


def _nic_choice(nets: list[Element], options: NodeOptions, usual: str, root: Element) -> Choice:
    if not nets or options.nic:
        return options.choose("nic", usual, "assumed: the file lists no network card")
    classes = {
        id(net): pci.attributes.get("class", "")
        for pci in root.below("pci")
        for nic in pci.all("nic")
        for net in nic.all("net")
    }
    first = nets[0]
    return net_link(
        first.attributes.get("name", ""), first.number("speed", 1), classes.get(id(first), "")
    )

"""Parse the matrix of ``nvidia-smi topo -m``, and build its node.

Each cell names the farthest connection between two devices: NV# (so many NVLinks), PIX (one PCIe
bridge), PXB (several, no host bridge), PHB (a host bridge, the CPU), NODE (host bridges of one NUMA
node), SYS (the link between NUMA nodes; SOC in old drivers). NVLink hides PCIe in this matrix: a
switch shared by two such GPUs only shows if both are near one network card.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import networkx as nx

from dpsim.hardware import gpus
from dpsim.imports.draft import (
    NodeDraft,
    Pairs,
    Part,
    draft_node,
    merge_sockets,
    nvlink_plan,
)
from dpsim.imports.options import Choice, NodeOptions, gpu_by_nvlinks, most_nvlinks, surroundings
from dpsim.imports.reading import ImportFileError, text_lines

_FARNESS = {"PIX": 1, "PSB": 1, "PXB": 2, "PHB": 3, "NODE": 4, "SYS": 5, "SOC": 5}
_NVLINK = re.compile(r"NV([1-9]\d?)")
_GPU = re.compile(r"GPU\d+")
_AFFINITIES = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_LEGEND = re.compile(r"\s*(NIC\d+):\s*(\S+)\s*")
_MOST_DEVICES = 256


@dataclass(frozen=True, slots=True)
class TopoMatrix:
    """The connections between all devices.

    Devices are in order, GPUs first, and ``cells[i][j]`` are as written. ``numa`` and ``cpus`` are
    the affinity of each GPU, or None.
    """

    devices: list[str]
    gpus: int
    cells: list[list[str]]
    numa: list[int | None]
    cpus: list[str | None]

    def nvlinks(self) -> Pairs:
        """Return the number of NVLinks between each pair of GPUs."""
        found: Pairs = {}
        for a in range(self.gpus):
            for b in range(a + 1, self.gpus):
                if match := _NVLINK.fullmatch(self.cells[a][b]):
                    found[a, b] = int(match[1])
        return found

    def farness(self, a: int, b: int) -> int | None:
        """Return 1 (one PCIe bridge) to 5 (another NUMA node), or None if NVLink hides it."""
        return _FARNESS.get(self.cells[a][b])


def parse_nvidia_topo(content: bytes) -> TopoMatrix:
    """Parse the matrix in ``content``, with or without other shell output around it.

    Raises ImportFileError with the invalid line.
    """
    lines = text_lines(content)
    header, names, affinities = _header(lines)
    columns = len(names)
    rows: dict[str, tuple[int, list[str], list[str]]] = {}
    for number, line in enumerate(lines[header:], header + 1):
        cells = line.split()
        # After the last row, anything may follow.
        if not cells or (cells[0] not in names and len(rows) == columns):
            continue
        if cells[0].startswith("Legend"):
            break
        if cells[0] not in names:
            raise ImportFileError(
                f"must begin with a device of the header ({names[0]} to {names[-1]}), but got "
                f"{cells[0]!r}",
                number,
            )
        if cells[0] in rows:
            raise ImportFileError(
                f"must have one row for each device, but {cells[0]} has a second", number
            )
        rows[cells[0]] = (number, _cells(cells, names, number), cells[1 + columns :])
    missing = [name for name in names if name not in rows]
    if missing:
        last = max((number for number, *_ in rows.values()), default=header)
        raise ImportFileError(
            f"the matrix must have a row for each of its {columns} columns, but ends before "
            f"{missing[0]}",
            last,
        )
    return _matrix(_rename_cards(names, lines), names, rows, affinities)


def _header(lines: list[str]) -> tuple[int, list[str], list[str]]:
    """Return the number of lines up to the header, its devices, and its affinity columns."""
    for number, line in enumerate(lines, 1):
        # Cut the affinity columns, whose names have a space. A row, unlike the header, has an X.
        words = line.split("CPU Affinity")[0].split("NUMA Affinity")[0].split()
        if words and _GPU.fullmatch(words[0]) and "X" not in words:
            if len(set(words)) != len(words) or len(words) > _MOST_DEVICES:
                raise ImportFileError(
                    f"the header must name each device once, {_MOST_DEVICES} at most", number
                )
            return number, words, [name for name in _AFFINITIES if name in line]
    raise ImportFileError(
        "must have the matrix of nvidia-smi topo -m, whose header begins with GPU0, but no line "
        "does: no GPUs"
    )


def _cells(words: list[str], names: list[str], number: int) -> list[str]:
    row, cells = words[0], words[1 : 1 + len(names)]
    if len(cells) < len(names):
        raise ImportFileError(
            f"the row of {row} must have {len(names)} cells, but got {len(cells)}", number
        )
    for name, cell in zip(names, cells, strict=True):
        if (cell == "X") != (name == row):
            raise ImportFileError(
                f"must be X where a device meets itself and only there, but {row} to {name} is "
                f"{cell!r}",
                number,
            )
        if cell != "X" and cell not in _FARNESS and not _NVLINK.fullmatch(cell):
            known = ", ".join(["NV#", *_FARNESS])
            raise ImportFileError(
                f"must be a known link type ({known}), but {row} to {name} is {cell!r}", number
            )
    return cells


def _rename_cards(names: list[str], lines: list[str]) -> list[str]:
    # Newer versions name the cards NIC0, NIC1, and list their devices below.
    legend = {match[1]: match[2] for line in lines if (match := _LEGEND.fullmatch(line))}
    return [legend.get(name, name) for name in names]


def _matrix(
    shown: list[str],
    names: list[str],
    rows: dict[str, tuple[int, list[str], list[str]]],
    affinities: list[str],
) -> TopoMatrix:
    count = sum(bool(_GPU.fullmatch(name)) for name in names)
    if not all(_GPU.fullmatch(name) for name in names[:count]):
        raise ImportFileError("the header must name the GPUs before the network cards")
    cells = [rows[name][1] for name in names]
    for i, name in enumerate(names):
        for j in range(i):
            if cells[i][j] != cells[j][i]:
                there = f"{names[j]} to {name} is {cells[j][i]!r} in line {rows[names[j]][0]}"
                raise ImportFileError(
                    f"must be the same both ways, but {name} to {names[j]} is {cells[i][j]!r}, "
                    f"{there}",
                    rows[name][0],
                )
    # An empty cell at the end of a row leaves no word.
    found = [dict(zip(affinities, rows[name][2], strict=False)) for name in names[:count]]
    numa = [one.get("NUMA Affinity", "") for one in found]
    cpus = [one.get("CPU Affinity", "N/A") for one in found]
    return TopoMatrix(
        shown,
        count,
        cells,
        [int(text) if text.isdecimal() else None for text in numa],
        [None if text == "N/A" else text for text in cpus],
    )


def node_from_nvidia_topo(content: bytes, options: NodeOptions, file: str = "") -> NodeDraft:
    """Return the node that the matrix in ``content`` describes.

    Missing information comes from ``options`` or is assumed, with a note. Raises ImportFileError
    with the invalid line.
    """
    matrix = parse_nvidia_topo(content)
    pairs = matrix.nvlinks()
    at_a_gpu = [
        [count for pair, count in pairs.items() if gpu in pair] for gpu in range(matrix.gpus)
    ]
    sums = max((sum(counts) for counts in at_a_gpu), default=0)
    widest = max(pairs.values(), default=0)
    # If the sum exceeds any GPU's, the pairs share a plane of switches, and one pair's links are
    # all of a GPU's.
    gpu = options.choose("gpu", *gpu_by_nvlinks(sums if sums <= most_nvlinks() else widest))
    usual = surroundings(gpus()[gpu.value])
    why = f"assumed: usual with {gpu.value}"
    pcie = Choice(usual.pcie, why)
    cards, notes = _used_cards(matrix)
    sockets, more = _sockets(matrix, cards, pcie.value)
    nvlinks = nvlink_plan(pairs, usual.most_nvlinks)
    return draft_node(
        f"from nvidia-smi topo -m{f' ({file})' if file else ''}",
        sockets,
        nvlinks,
        gpu,
        Choice(usual.nvlink, why),
        Choice(usual.between_sockets, why),
        [pcie],
        pcie,
        options.choose("nic", usual.nic, why),
        [*notes, *more],
    )


def _used_cards(matrix: TopoMatrix) -> tuple[list[int], list[str]]:
    """Return the cards that are nearest to some GPU; and notes.

    NCCL would choose the nearest ones too.
    """
    cards = list(range(matrix.gpus, len(matrix.devices)))
    used: set[int] = set()
    for gpu in range(matrix.gpus):
        # A connection hidden by NVLink counts as far as another NUMA node.
        far = {card: matrix.farness(gpu, card) or 5 for card in cards}
        nearest = min(far.values(), default=0)
        used.update(card for card in cards if far[card] == nearest)
    out = [matrix.devices[card] for card in cards if card not in used]
    return sorted(used), [
        f"ignored: network cards {', '.join(out)}, since every GPU has a nearer one"
    ] if out else []


def _sockets(matrix: TopoMatrix, cards: list[int], pcie: str) -> tuple[list[Part], list[str]]:
    """Return the PCIe trees: sockets with their switches, GPUs and cards; and notes."""
    numa, notes = _numa_groups(matrix)
    place, note = merge_sockets(sorted(set(numa[: matrix.gpus])))
    notes += [note] if note else []
    socket_of = dict(zip(sorted(set(numa[: matrix.gpus])), place, strict=True))
    sockets = [Part("cpu") for _ in range(max(place) + 1)]
    extra: Part | None = None
    # Devices that are at most PXB apart share a switch, or several switches under
    # one.
    for members in sorted(_pcie_groups(matrix, 2).to_sets(), key=min):
        kept = [device for device in sorted(members) if device < matrix.gpus or device in cards]
        if not kept:
            continue
        part = _switch(matrix, kept, pcie)
        group = numa[kept[0]]
        if group in socket_of:
            sockets[socket_of[group]].parts.append(part)
        # On none of the sockets with GPUs: if there is only one of these, assume another socket.
        elif len(sockets) == 1:
            extra = extra or Part("cpu")
            extra.parts.append(part)
        else:
            sockets[0].parts.append(part)
            notes.append(
                f"assumed: {matrix.devices[kept[0]]}, far from every GPU, is on the first socket"
            )
    if matrix.nvlinks() and not cards:
        notes.append(
            "assumed: each GPU has a PCIe link of its own to its socket, since NVLink hides PCIe "
            "in the matrix"
        )
    return [*sockets, *([extra] if extra else [])], notes


def _pcie_groups(matrix: TopoMatrix, farthest: int) -> nx.utils.UnionFind[int]:
    """Group devices that are at most ``farthest`` apart."""
    groups = nx.utils.UnionFind(range(len(matrix.devices)))
    for a in range(len(matrix.devices)):
        for b in range(a):
            # A connection hidden by NVLink counts as far, so that it joins no devices.
            if (matrix.farness(a, b) or 9) <= farthest:
                groups.union(a, b)
    return groups


def _switch(matrix: TopoMatrix, members: list[int], pcie: str) -> Part:
    """Return the single device, or the switch over ``members``.

    Members that are closer to each other have a switch below it.
    """
    leaves = {
        device: Part("gpu", device, pcie)
        if device < matrix.gpus
        else Part("nic", device - matrix.gpus, pcie)
        for device in members
    }
    if len(members) == 1:
        return leaves[members[0]]
    near = _pcie_groups(matrix, 1)
    groups: dict[int, list[int]] = {}
    for device in members:
        groups.setdefault(near[device], []).append(device)
    parts: list[Part] = []
    for group in groups.values():
        below = [leaves[device] for device in group]
        own = len(groups) > 1 and len(group) > 1 and any(part.kind == "gpu" for part in below)
        parts += [Part("pcie-switch", up=pcie, parts=below)] if own else below
    return Part("pcie-switch", up=pcie, parts=parts)


def _numa_groups(matrix: TopoMatrix) -> tuple[list[int], list[str]]:
    """Return a NUMA number for each device; and notes.

    It comes from the affinity columns and from cells that stay inside a NUMA node.
    """
    groups = _pcie_groups(matrix, 4)
    first_of: dict[int | str, int] = {}
    notes: list[str] = []
    for gpu in range(matrix.gpus):
        affinity = matrix.numa[gpu] if matrix.numa[gpu] is not None else matrix.cpus[gpu]
        if affinity is not None:
            # With the first GPU of that affinity.
            groups.union(first_of.setdefault(affinity, gpu), gpu)
        elif all(matrix.farness(gpu, other) is None for other in range(len(matrix.devices))):
            groups.union(0, gpu)
            if matrix.gpus > 1:
                notes = ["assumed: one socket, since the matrix says nothing of sockets"]
    return _group_numbers(matrix, groups), notes


def _group_numbers(matrix: TopoMatrix, groups: nx.utils.UnionFind[int]) -> list[int]:
    """Return the number of each device's group: a GPU's in the matrix, otherwise a new one.

    New numbers are above all in the matrix.
    """
    numbers: dict[int, int] = {}
    unnumbered = 1 + max((number for number in matrix.numa if number is not None), default=-1)
    for device in range(len(matrix.devices)):
        group = groups[device]
        number = matrix.numa[device] if device < matrix.gpus else None
        if group not in numbers and number is None:
            number, unnumbered = unnumbered, unnumbered + 1
        if number is not None:
            numbers.setdefault(group, number)
    return [numbers[groups[device]] for device in range(len(matrix.devices))]

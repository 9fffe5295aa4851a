"""Parse Slurm's ``topology.conf`` and ``topology.yaml``: switches and the nodes below them.

Source of the formats: the manual pages topology.conf(5) and topology.yaml(5) of Slurm 25.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from dpsim.base.errors import ScenarioError
from dpsim.imports.reading import ImportFileError, text_lines

_MOST_YAML = 2**20  # letters: its reader takes a minute for more
_MOST_NAMED = 2**20
_MOST_HOSTS = 2**16
CORE = "core"  # the switch that connects blocks, which Slurm does not name
_PART = re.compile(r"[^,\[\]]+|\[[^\[\]]*\]|,")  # of a hostlist
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
_PAIR = re.compile(r"(\w+)\s*=\s*(\"[^\"]*\"|\S+)")
_KEY = re.compile(r"^\s*(SwitchName|BlockName|BlockSizes)\s*=", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch or block: the nodes and switches below it, and its LinkSpeed if it has one."""

    name: str
    nodes: tuple[str, ...]
    children: tuple[str, ...]
    speed: float | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """The topology in a file: ``plugin`` is tree or block; ``sizes`` are the block sizes."""

    plugin: str
    switches: dict[str, Switch]
    sizes: tuple[int, ...] = ()


def parse_topology(content: bytes, which: str | None = None) -> Topology:
    """Parse the topology in a file of either kind; ``which`` is its name in a topology.yaml.

    Raises ImportFileError, with the line if there is one.
    """
    lines = text_lines(content)
    text = "\n".join(line.partition("#")[0] for line in lines)
    if _KEY.search(text):
        if which is not None:
            raise ImportFileError("must be a topology.yaml for --topology, but has no names")
        return _parse_conf(text.split("\n"))
    return _parse_yaml("\n".join(lines), which)


def _parse_conf(lines: list[str]) -> Topology:
    statements = list(_statements(lines))
    switches = _check_bounds(
        _switch(keys["switchname"], keys, number)
        for number, keys in statements
        if "switchname" in keys
    )
    blocks = _check_bounds(
        _block(keys["blockname"], keys.get("nodes"), number)
        for number, keys in statements
        if "blockname" in keys
    )
    sizes: tuple[int, ...] = ()
    for number, keys in statements:
        if "blocksizes" in keys:
            sizes = _sizes(keys["blocksizes"].split(","), number)
        elif not {"switchname", "blockname"} & set(keys):
            raise ImportFileError(
                "must have SwitchName=, BlockName= or BlockSizes=, but got "
                f"{next(iter(keys), '')!r}",
                number,
            )
    # Slurm reads a file with one plugin, tree or block.
    if switches and blocks:
        raise ImportFileError("must have switches or blocks, but has both", blocks[0].line)
    return _block_topology(blocks, sizes) if blocks else _tree_topology(switches)


def _check_bounds(switches: Iterable[Switch]) -> list[Switch]:
    """Return all switches, unless they name too much: a short line may name 65,536 nodes."""
    checked: list[Switch] = []
    named = 0
    for one in switches:
        checked.append(one)
        named += len(one.nodes) + len(one.children)
        if named > _MOST_NAMED:
            raise ImportFileError(f"must name at most {_MOST_NAMED:,} nodes and switches", one.line)
    return checked


def _statements(lines: list[str]) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the keys and values of each statement, keys in lower case; a backslash continues it."""
    whole, start = "", 1
    for number, line in enumerate(lines, 1):
        start = start if whole else number
        # A statement continues in the next line, and errors name the line in which it begins.
        whole += line.strip().removesuffix("\\")
        if line.rstrip().endswith("\\"):
            continue
        keys = {key.lower(): value.strip('"') for key, value in _PAIR.findall(whole)}
        # Refuse what is no pair, or a key without a value would be dropped silently.
        rest = _PAIR.sub("", whole).strip()
        if rest:
            raise ImportFileError(f"must be key=value pairs, but got {rest[:60]!r}", start)
        if keys:
            yield start, keys
        whole = ""


def _switch(name: str, keys: dict[str, str], line: int | None) -> Switch:
    speed = keys.get("linkspeed")
    is_speed = speed is None or re.fullmatch(r"\d{1,9}(\.\d{1,6})?", speed)
    if not is_speed or (speed is not None and float(speed) == 0):
        raise ImportFileError(f"LinkSpeed: must be a number above 0, but got {speed!r}", line)
    return Switch(
        name,
        tuple(_hosts(keys.get("nodes"), line)),
        tuple(_hosts(keys.get("switches"), line)),
        None if speed is None else float(speed),
        line,
    )


def _block(name: str, nodes: object, line: int | None) -> Switch:
    return Switch(name, tuple(_hosts(nodes, line)), (), None, line)


def _hosts(hostlist: object, line: int | None) -> list[str]:
    """Expand a hostlist, or none."""
    if hostlist is None:
        return []
    if not isinstance(hostlist, str):
        raise ImportFileError(f"must be a hostlist, but got {str(hostlist)[:60]!r}", line)
    return expand_hosts(hostlist, line)


def _sizes(texts: list[Any], line: int | None) -> tuple[int, ...]:
    texts = [str(size).strip() for size in texts]
    if not all(re.fullmatch(r"[1-9]\d{0,5}", text) for text in texts):
        raise ImportFileError(
            f"block sizes must be whole numbers above 0, but got {','.join(texts)[:60]!r}", line
        )
    return tuple(int(text) for text in texts)


def _parse_yaml(text: str, which: str | None) -> Topology:
    chosen = _chosen(_topologies(text), which)
    kinds = [kind for kind in ("tree", "block", "flat") if chosen.get(kind)]
    if len(kinds) != 1:
        raise ImportFileError(
            f"topology {chosen['topology']}: must have one of tree, block and flat, but has "
            f"{', '.join(kinds) or 'none'}"
        )
    if kinds[0] == "flat":
        raise ImportFileError(
            f"topology {chosen['topology']}: is flat, which names no nodes: use fabric "
            "single-switch"
        )
    part = chosen[kinds[0]]
    if kinds[0] == "tree":
        rows = _rows(part, "switches", "switch")
        return _tree_topology(_check_bounds(_yaml_switch(row) for row in rows))
    sizes = part.get("block_sizes") if isinstance(part, dict) else None
    rows = _rows(part, "blocks", "block")
    blocks = _check_bounds(_block(row["block"], row.get("nodes"), None) for row in rows)
    return _block_topology(blocks, _sizes(sizes if isinstance(sizes, list) else [], None))


def _topologies(text: str) -> list[dict[str, Any]]:
    from dpsim.scenario import parse

    if len(text) > _MOST_YAML:
        raise ImportFileError(f"must be at most {_MOST_YAML:,} letters of YAML, but has more")
    try:
        # The reader of scenarios has limits and reports places.
        root = parse(text, "YAML")
    except ScenarioError as error:
        raise ImportFileError(f"must be topology.conf or YAML, but {error}") from None
    topologies: Any = None if root is None else root.plain()
    is_list = isinstance(topologies, list) and topologies
    if not is_list or not all(
        isinstance(one, dict) and isinstance(one.get("topology"), str) for one in topologies
    ):
        raise ImportFileError(
            "must be topology.conf (SwitchName=, BlockName=) or a YAML list of topologies, each "
            "with its name as topology"
        )
    return list(topologies)


def _chosen(found: list[dict[str, Any]], which: str | None) -> dict[str, Any]:
    """Return the topology of that name; by default the cluster's, or the first."""
    if which is None:
        # Slurm's choice for jobs that name none.
        return next((one for one in found if one.get("cluster_default") is True), found[0])
    named = [one for one in found if one["topology"] == which]
    if not named:
        names = ", ".join(str(one["topology"]) for one in found)
        raise ImportFileError(f"must have the topology {which!r}, but has {names[:200]}")
    return named[0]


def _rows(part: object, key: str, name: str) -> list[dict[str, Any]]:
    rows = part.get(key) if isinstance(part, dict) else None
    if not isinstance(rows, list) or not rows:
        raise ImportFileError(f"must have a list {key}, but has none")
    for place, row in enumerate(rows):
        if not isinstance(row, dict) or not isinstance(row.get(name), str):
            raise ImportFileError(f"{key}[{place}]: must have a name as {name}")
    return rows


def _yaml_switch(row: dict[str, Any]) -> Switch:
    nodes, children = (tuple(_hosts(row.get(key), None)) for key in ("nodes", "children"))
    return Switch(row["switch"], nodes, children)


def _tree_topology(switches: list[Switch]) -> Topology:
    by_name: dict[str, Switch] = {}
    for one in switches:
        # One line may describe several switches, which then have the same nodes and speed.
        for name in expand_hosts(one.name, one.line):
            if len(by_name) >= _MOST_HOSTS:
                raise ImportFileError(f"must name at most {_MOST_HOSTS:,} switches", one.line)
            if name in by_name:
                raise ImportFileError(f"switch {name!r} must be named once", one.line)
            by_name[name] = Switch(name, one.nodes, one.children, one.speed, one.line)
    for one in by_name.values():
        unknown = [child for child in one.children if child not in by_name]
        if unknown:
            raise ImportFileError(
                f"switch {one.name!r}: must have switches that the file names, but got "
                f"{unknown[0]!r}",
                one.line,
            )
    _check_hosts(by_name)
    return Topology("tree", by_name)


def _block_topology(blocks: list[Switch], sizes: tuple[int, ...]) -> Topology:
    by_name = {one.name: one for one in blocks}
    if len(by_name) < len(blocks):
        raise ImportFileError("each block must have a name of its own, but some share one")
    _check_hosts(by_name)
    # Several blocks need a switch that connects them.
    if len(by_name) > 1:
        if CORE in by_name:
            raise ImportFileError(f"no block must be called {CORE!r}", by_name[CORE].line)
        by_name[CORE] = Switch(CORE, (), tuple(by_name))
    return Topology("block", by_name, sizes)


def _check_hosts(switches: dict[str, Switch]) -> None:
    """Raise ImportFileError if a node is on two switches, or for too many nodes or none."""
    seen: dict[str, str] = {}
    for one in switches.values():
        for host in one.nodes:
            if host in seen:
                raise ImportFileError(
                    f"node {host!r} must be of one switch or block, but is of {seen[host]!r} and "
                    f"{one.name!r}",
                    one.line,
                )
            seen[host] = one.name
    if not 1 <= len(seen) <= _MOST_HOSTS:
        raise ImportFileError(f"must name 1 to {_MOST_HOSTS:,} nodes, but names {len(seen):,}")


def expand_hosts(text: str, line: int | None = None) -> list[str]:
    """Return the names of a Slurm hostlist: tux0, tux1 and login of ``tux[0-1],login``.

    A name may have several ranges in brackets; numbers are padded to the width of the range's
    first. Raises ImportFileError for an invalid hostlist, or more than 65,536 names.
    """
    names: list[str] = []
    for word in _words(text, line):
        pieces = [_numbers(piece, line) if piece[:1] == "[" else [piece] for piece in word]
        for name in product(*pieces):
            names.append("".join(name))
            if len(names) > _MOST_HOSTS:
                raise ImportFileError(f"must name at most {_MOST_HOSTS:,} hosts", line)
    if not names:  # only commas
        raise _no_hostlist(text, line)
    return names


def _no_hostlist(text: str, line: int | None) -> ImportFileError:
    return ImportFileError(f"must be a hostlist such as tux[0-3,12], but got {text[:60]!r}", line)


def _words(text: str, line: int | None) -> Iterator[list[str]]:
    """Yield the pieces of each name: texts, and ranges in their brackets."""
    pieces = _PART.findall(text)
    if "".join(pieces) != text or not text:
        raise _no_hostlist(text, line)
    word: list[str] = []
    # An additional comma ends the last name like the others.
    for piece in [*pieces, ","]:
        if piece != ",":
            word.append(piece.strip())
        elif word:
            yield word
            word = []


def _numbers(brackets: str, line: int | None) -> list[str]:
    numbers: list[str] = []
    for part in brackets[1:-1].split(","):
        match = _RANGE.fullmatch(part.strip())
        first, last = (0, -1) if match is None else (int(match[1]), int(match[2] or match[1]))
        if match is None or not 0 <= last - first < _MOST_HOSTS:
            raise ImportFileError(
                f"must have ranges such as [0-3,12], but got {brackets[:60]!r}", line
            )
        # Leading zeros are kept: [08-10] is 08, 09, 10.
        numbers += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
        if len(numbers) > _MOST_HOSTS:
            raise ImportFileError(f"must name at most {_MOST_HOSTS:,} hosts", line)
    return numbers

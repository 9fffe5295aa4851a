"""A network given by its edges: inline in the scenario, or in a GraphML file."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import product
from typing import Any, Literal

import networkx as nx
import numpy as np
from pydantic import Field, NonNegativeInt, ValidationError, model_validator

from dpsim.base.arrays import IntArray
from dpsim.base.config import FilePath
from dpsim.base.errors import DpsimError, suggestion
from dpsim.base.files import read_limited
from dpsim.topology.fabrics.ecmp import HASHED, Spread
from dpsim.topology.fabrics.edge import CustomEdge
from dpsim.topology.fabrics.fabric import Fabric, Ports, SwitchedConfig
from dpsim.topology.fabrics.shortest_paths import ShortestPaths

ResolvedEdge = tuple[str, str, float, float]  # one end, other end, B/s, s

_CARD = re.compile(r"node(\d{1,9})/nic(\d{1,9})")
_MOST_CARDS = 2**16  # each is looked at by name
_MOST_BYTES = 2**24  # of a GraphML file


class Custom(Fabric):
    """Links between ports and switches as a list; edge e has the capacities 2 e and 2 e + 1.

    Raises DpsimError if it does not connect all ports.
    """

    def __init__(
        self, ports: Ports, edges: Sequence[ResolvedEdge], spread: Spread = HASHED
    ) -> None:
        self._ends: list[tuple[str, str]] = []
        for a, b, *_ in edges:
            self._ends += [(a, b), (b, a)]
        rates = np.repeat([rate for *_, rate, _ in edges], 2)
        latencies = np.repeat([latency for *_, latency in edges], 2)
        super().__init__(ports, rates, latencies)
        self._shortest = ShortestPaths(self.graph(), spread)
        # Cached, because collectives ask for the same pairs again, and each takes a search.
        self._found: dict[tuple[int, int], list[int]] = {}

        # Links are full duplex, so it is enough that all ports reach port 0.
        for port in range(1, ports.count):
            if not self._shortest.reaches(port, 0):
                card = ports.shown(f"port{port}")
                raise DpsimError(
                    f"edges must connect all network cards, but there is no path from {card} to "
                    "node0/nic0"
                )

    def _path(self, source: int, destination: int) -> list[int]:
        if (source, destination) not in self._found:
            self._found[source, destination] = self._shortest.path(source, destination)
        return self._found[source, destination]

    def paths(self, source: IntArray, destination: IntArray) -> IntArray:
        """Return the shortest paths of the graph."""
        pairs = zip(source.tolist(), destination.tolist(), strict=True)
        found = [self._path(a, b) for a, b in pairs]
        hops = max(map(len, found), default=0)
        links = np.full((len(found), hops), -1, dtype=np.int64)
        for row, path in zip(links, found, strict=True):
            row[: len(path)] = path
        return links

    def link(self, number: int) -> tuple[str, str]:
        """Return the two ends of an edge, in one direction or the other."""
        return self._ends[number]


class CustomConfig(SwitchedConfig):
    """A network given by its edges."""

    fabric: Literal["custom"] = Field(
        description="Network cards and switches, joined by given edges or by a GraphML file."
    )
    edges: tuple[CustomEdge, ...] = Field(default=(), description="Every link, with its two ends.")
    graphml: FilePath | None = Field(
        default=None,
        description=(
            "A GraphML file instead of edges, with a path relative to the scenario file. Nodes "
            "are named as in edges (by id, or an attribute `name`); edges have text attributes: "
            "link, or rate and latency, and window."
        ),
    )
    ecmp_seed: NonNegativeInt = Field(
        default=0, description="Seed of the hash that chooses between paths of equal length."
    )

    @property
    def links_file(self) -> str | None:
        """The GraphML file, if one is given instead of edges."""
        return self.graphml

    @property
    def listed_edges(self) -> tuple[CustomEdge, ...]:
        """The edges of the scenario or of the file. Raises DpsimError for a file without edges."""
        return self.edges or tuple(_read_graphml(self.graphml or ""))

    @model_validator(mode="after")
    def _check_source(self) -> CustomConfig:
        if bool(self.edges) == (self.graphml is not None):
            raise ValueError(
                f"must have either edges or graphml, but got {'both' if self.edges else 'neither'}"
            )
        return self

    def check(self, cards: Sequence[int]) -> None:
        """Raise ValueError if edges name missing cards, or a pair of ends twice."""
        if sum(cards) > _MOST_CARDS:
            raise ValueError(
                f"a custom network must have at most {_MOST_CARDS:,} network cards, but got "
                f"{sum(cards):,}"
            )
        if self.edges:
            # Only for its errors; a file is checked later, in `fabric_of`.
            list(_resolved(self.edges, cards))

    def fabric_of(self, ports: Ports) -> Fabric:
        """Return the network of the edges.

        Raises DpsimError for a GraphML file that is invalid or whose network is not connected.
        """
        cards = np.bincount(ports.node_of).tolist()
        edges = self.listed_edges
        try:
            resolved = list(_resolved(edges, cards))
            return Custom(ports, resolved, Spread(self.ecmp_seed))
        except ValueError as error:
            where = "edges" if self.edges else f"graphml: {self.graphml}"
            raise DpsimError(f"cluster.network.{where}: {error}") from None


def _resolved(edges: Sequence[CustomEdge], cards: Sequence[int]) -> Iterator[ResolvedEdge]:
    """Yield each link once, with ports by number.

    Raises ValueError for an unknown card, a link to itself, or a pair joined twice.
    """
    names = [f"node{node}/nic{nic}" for node, count in enumerate(cards) for nic in range(count)]
    port = {name: f"port{number}" for number, name in enumerate(names)}
    seen: set[frozenset[str]] = set()
    for edge in edges:
        first, second = (_matches(end, port) for end in edge.between)
        to_itself = first == second
        if to_itself and len(first) == 1:
            raise ValueError(
                f"edges must join two ends, but {edge.between[0]!r} and {edge.between[1]!r} are "
                "the same one"
            )
        for a, b in product(first, second):
            pair = frozenset((a, b))
            if a == b or (to_itself and pair in seen):
                continue  # a pattern joined to itself yields every pair twice
            if pair in seen:
                raise ValueError(
                    f"edges must join a pair of ends once, but {a!r} and {b!r} are joined twice"
                )
            seen.add(pair)
            yield port.get(a, a), port.get(b, b), edge.bandwidth, edge.seconds

    joined = {name for pair in seen for name in pair}
    missing = [name for name in names if name not in joined]
    if missing:
        raise ValueError(
            f"edges must join every network card, but nothing joins {', '.join(missing[:8])}"
        )


def _matches(end: str, port: dict[str, str]) -> list[str]:
    """Return the names of one end of an edge.

    They are the cards that match a pattern, one card, or a switch with any other name.
    """
    if any(sign in end for sign in "*?["):
        found = [name for name in port if fnmatchcase(name, end)]
        if not found:
            raise ValueError(
                f"edges must match network cards (node0/nic0, ...) with a pattern, but {end!r} "
                "matches none"
            )
        return found
    # A switch with such a name would be mistaken for a port.
    like_a_port = _CARD.fullmatch(end) or re.fullmatch(r"port\d+", end)
    if end not in port and (like_a_port or not end.strip()):
        raise ValueError(
            "edges must name network cards that nodes have, or switches, but got "
            f"{end!r}{suggestion(end, port)}"
        )
    return [end]


def _read_graphml(path: str) -> Iterator[CustomEdge]:
    """Yield the edges of a GraphML file.

    Raises DpsimError if it cannot be read, or if an edge lacks a required attribute.
    """
    try:
        graph = nx.read_graphml(io.BytesIO(read_limited(path, _MOST_BYTES)))
    except DpsimError:
        raise
    except Exception as error:  # an XML parser's and networkx's own errors have no common base
        reason = " ".join(str(error).split())[:200]
        raise DpsimError(f"{path}: must be a GraphML file, but: {reason}") from None
    names: dict[Any, str] = {}
    for node, data in graph.nodes(data=True):
        names[node] = str(data.get("name", node))
    # A directed file may state a link once for each direction, and links are full duplex here.
    for a, b, data in graph.to_undirected().edges(data=True):
        fields = {
            key: value
            for key, value in data.items()
            if key in ("link", "rate", "latency", "window")
        }
        try:
            yield CustomEdge.model_validate({"between": (names[a], names[b]), **fields})
        except ValidationError as error:
            first = error.errors()[0]
            where = "".join(f"{part}: " for part in first["loc"][:1])
            problem = first["msg"].removeprefix("Value error, ")
            raise DpsimError(f"{path}: edge {names[a]} - {names[b]}: {where}{problem}") from None

"""Import Slurm's topology as a scenario with that network.

Equal leaves below the same switches become a leaf-spine, one switch a single one, anything else a
custom network. Slurm has no rates: LinkSpeed has no unit, and Slurm does not use it. Unless a unit
is given, an uplink carries the traffic of all nodes below it, over the oversubscription.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import networkx as nx
import numpy as np

from dpsim.hardware import Link, links, nodes
from dpsim.imports.reading import ImportFileError
from dpsim.imports.scenario_draft import ASSUMED, Edge, ScenarioDraft, TrainingSizes, name_model
from dpsim.imports.slurm_files import CORE, Switch, Topology, parse_topology

_MOST_SWITCHES = 4096  # the nodes below are computed for every one
_MOST_EDGES = 20_000
_LATENCY = "0.5 us"  # of a link between switches: assumed, as in dpsim's own fabrics
_NODE = "dgx-h100"
_RATIO = "cluster.network.oversubscription"


@dataclass(frozen=True, slots=True)
class SlurmOptions:
    """The command's options: the part of the file to use, and values that the file lacks.

    ``topology`` is a name in a topology.yaml, ``switch`` the root of the part that is taken;
    ``nic`` is the link of each card, ``oversubscription`` a switch's rate down over its rate up.
    ``speed_unit`` is the rate in B/s of a LinkSpeed of 1; if None, LinkSpeed is not used.
    """

    topology: str | None = None
    switch: str | None = None
    model: str | None = None
    node: str | None = None
    nic: str | None = None
    oversubscription: float | None = None
    speed_unit: float | None = None


class _Tree:
    """The switches in the order of the file, and their hierarchy."""

    def __init__(self, switches: dict[str, Switch]) -> None:
        self.switches = switches
        self.graph: nx.DiGraph[str] = nx.DiGraph()
        self.graph.add_nodes_from(switches)
        for one in switches.values():
            self.graph.add_edges_from((one.name, child) for child in one.children)
        self.tops = [name for name in switches if not self.parents(name)]
        self.leaves = [one for one in switches.values() if one.nodes]
        self.hosts = [host for leaf in self.leaves for host in leaf.nodes]

    def parents(self, name: str) -> list[str]:
        """Return the switches directly above one."""
        return list(self.graph.predecessors(name))

    def nodes_below(self) -> dict[str, int]:
        """Return how many nodes are below each switch, including its own."""
        # A row of booleans per switch: whether the columns' switches are itself or below it.
        index_of = {name: number for number, name in enumerate(self.switches)}
        under = np.eye(len(index_of), dtype=bool)
        for name in reversed(list(nx.topological_sort(self.graph))):
            for child in self.graph.successors(name):
                under[index_of[name]] |= under[index_of[child]]
        nodes = np.array([len(one.nodes) for one in self.switches.values()])
        return {name: int(nodes[under[number]].sum()) for name, number in index_of.items()}

    @property
    def is_regular(self) -> bool:
        """Whether all leaves are equal and below the same switches, which are the top."""
        leaves, tops = self.leaves, set(self.tops)
        return (
            len(self.switches) == len(leaves) + len(tops)
            and len({(len(leaf.nodes), leaf.speed) for leaf in leaves}) == 1
            and all(set(self.parents(leaf.name)) == tops for leaf in leaves)
        )


def scenario_from_slurm(content: bytes, name: str, options: SlurmOptions) -> ScenarioDraft:
    """Return the scenario of a topology.conf or a topology.yaml.

    Raises ImportFileError, with the line if there is one.
    """
    topology = parse_topology(content, options.topology)
    tree = _check_tree(_Tree(topology.switches), options.switch)
    draft = ScenarioDraft(name, f"Slurm (topology/{topology.plugin})")
    name_model(draft, TrainingSizes(model=options.model))
    draft.assume("workload.batch_per_gpu", 1, "the file is of a network")
    if options.node is None:
        draft.assume("cluster.node", _NODE, "the file does not say; --node NAME")
    else:
        draft.set("cluster.node", options.node, "--node")
    first, last = tree.hosts[0], len(tree.hosts) - 1
    named = f"node0 is {first}" + (f", node{last} is {tree.hosts[last]}" if last else "")
    draft.set("cluster.nodes", len(tree.hosts), named)
    _note_ignored(draft, topology, tree, options)
    if len(tree.switches) == 1:
        draft.set("cluster.network.fabric", "single-switch", f"{tree.tops[0]} alone")
        _card(draft, options)
    elif tree.is_regular:
        _leaf_spine(draft, tree, options)
    else:
        _custom(draft, tree, options)
    return draft


def _check_tree(tree: _Tree, switch: str | None) -> _Tree:
    """Return the tree, or the part below one of its switches.

    Raises ImportFileError for an unknown switch, a cycle, and parts without a connection.
    """
    if len(tree.switches) > _MOST_SWITCHES:
        raise ImportFileError(
            f"must name at most {_MOST_SWITCHES:,} switches, but names {len(tree.switches):,}"
        )
    if switch is not None:
        if switch not in tree.switches:
            raise ImportFileError(f"must have the switch {switch!r} of --switch, but lacks it")
        # The switch and all below it, without those above.
        kept = {switch, *nx.descendants(tree.graph, switch)}
        tree = _Tree({name: one for name, one in tree.switches.items() if name in kept})
    if not nx.is_directed_acyclic_graph(tree.graph):
        one = tree.switches[nx.find_cycle(tree.graph)[0][0]]
        raise ImportFileError(f"switch {one.name!r} must not be below itself", one.line)
    # The first name of each part, so that the message is reproducible.
    parts = [min(part) for part in nx.weakly_connected_components(tree.graph)]
    if len(parts) > 1:
        raise ImportFileError(
            f"must be one network, but nothing joins {parts[0]!r} and {parts[1]!r}: --switch NAME "
            "takes what is under one switch"
        )
    if not tree.hosts:
        raise ImportFileError("must have nodes, but has none under its switches")
    return tree


def _note_ignored(
    draft: ScenarioDraft, topology: Topology, tree: _Tree, options: SlurmOptions
) -> None:
    if options.speed_unit is None and any(one.speed for one in tree.switches.values()):
        draft.ignore("LinkSpeed", "it has no unit, and Slurm does not use it; --speed-unit RATE")
    if topology.sizes:
        draft.ignore("BlockSizes", "they say how jobs are placed, not what joins the nodes")
    if CORE in tree.switches and topology.plugin == "block":
        draft.ignore("what joins the blocks", "the file does not say: one layer of switches here")


def _card(draft: ScenarioDraft, options: SlurmOptions) -> Link:
    """Return the link of a network card: the option, which is set, or the node's own."""
    if options.nic is None:
        return nodes()[str(draft.values["cluster.node"])].nics.link
    draft.set("cluster.network.nic", links()[options.nic].name, "--nic")
    return links()[options.nic]


def _cards(draft: ScenarioDraft) -> int:
    """Return the number of network cards of each node."""
    return nodes()[str(draft.values["cluster.node"])].nics.count


def _leaf_spine(draft: ScenarioDraft, tree: _Tree, options: SlurmOptions) -> None:
    leaf = tree.leaves[0]
    draft.set("cluster.network.fabric", "leaf-spine", "equal leaves below the same switches")
    draft.set("cluster.network.nodes_per_leaf", len(leaf.nodes), f"as {leaf.name}")
    draft.set("cluster.network.spines", len(tree.tops), ", ".join(tree.tops)[:60])
    card = _card(draft, options)
    if options.speed_unit is None or leaf.speed is None:
        ratio, source = _ratio(options)
        draft.set(_RATIO, ratio, source)
        return
    down = len(leaf.nodes) * _cards(draft) * card.rate.value
    # A leaf has a link of its own speed to each switch above it.
    up = leaf.speed * options.speed_unit * len(tree.tops)
    # A leaf's uplinks are never faster than all its nodes together: there is no more traffic.
    draft.set(_RATIO, round(max(1.0, down / up), 6), "LinkSpeed")


def _ratio(options: SlurmOptions) -> tuple[float, str]:
    if options.oversubscription is not None:
        return options.oversubscription, "--oversubscription"
    return 1.0, f"{ASSUMED}the file does not say; --oversubscription X"


def _custom(draft: ScenarioDraft, tree: _Tree, options: SlurmOptions) -> None:
    """Set a custom network. Raises ImportFileError for none, or too many edges."""
    edges = list(_edges(draft, tree, options))
    draft.values.pop("cluster.network.nic", None)  # each edge has its own
    if not edges:
        raise ImportFileError("must have links between nodes and switches, but has none")
    # A scenario has a limited number of values, of which each edge takes several.
    if len(edges) > _MOST_EDGES:
        raise ImportFileError(
            f"must have at most {_MOST_EDGES:,} links of its own, but has {len(edges):,}: --switch "
            "NAME takes what is under one switch"
        )
    why = "switches of unequal sizes, or more than two levels"
    draft.set("cluster.network.fabric", "custom", why)
    draft.set("cluster.network.edges", edges, "full duplex; node0/nic0 is a card, others switches")


def _edges(draft: ScenarioDraft, tree: _Tree, options: SlurmOptions) -> Iterator[Edge]:
    """Yield edges from cards to their leaf, and from each switch to those above it."""
    card, unit = _card(draft, options), options.speed_unit
    ratio, source = _ratio(options)
    if unit is None:
        draft.ignore("rates of links up", f"what is below sends, over {ratio:g} ({source})")
    number, nodes_below = 0, tree.nodes_below()
    for leaf in tree.leaves:
        for _ in leaf.nodes:
            ends = [f"node{number}/nic*", _switch_name(leaf.name)]
            yield {"between": ends, "link": card.name}
            number += 1
    for name in tree.switches:
        speed, parents = tree.switches[name].speed, tree.parents(name)
        below = nodes_below[name] * _cards(draft) * card.bandwidth
        for parent in parents:
            rate = below / ratio / len(parents)
            if unit is not None and speed is not None:
                # Trunks have the cards' achievable share of the nominal rate.
                rate = speed * unit * card.achievable.value
            if rate > 0:
                ends = [_switch_name(name), _switch_name(parent)]
                yield {"between": ends, "rate": f"{rate * 8e-9:.6g} Gbit/s", "latency": _LATENCY}


def _switch_name(name: str) -> str:
    """Return a switch's name for a custom network: no pattern, and not like a card or a port."""
    plain = "".join(letter if letter.isalnum() or letter in "-_.:" else "_" for letter in name)
    return f"switch-{plain}"

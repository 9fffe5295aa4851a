"""The scenario of an imported network: nodes and switches, and the links between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpsim.hardware import Link, links, nodes
from dpsim.imports.reading import ImportFileError
from dpsim.imports.scenario_draft import Edge, ScenarioDraft, TrainingSizes, name_model

_MOST_EDGES = 20_000
LATENCY = "0.5 us"  # of a link between switches: assumed, as in dpsim's own fabrics
_NODE = "dgx-h100"


@dataclass(frozen=True, slots=True)
class NetworkOptions:
    """The command's options for what a network's file lacks.

    ``nic`` is the link of each card, ``oversubscription`` a switch's rate down over its rate up.
    """

    model: str | None = None
    node: str | None = None
    nic: str | None = None
    oversubscription: float | None = None


def start_draft(file: str, program: str, options: NetworkOptions) -> ScenarioDraft:
    """Return a scenario with a model and a kind of node, from the options or assumed."""
    draft = ScenarioDraft(file, program)
    name_model(draft, TrainingSizes(model=options.model), None)
    draft.assume("workload.batch_per_gpu", 1, "the file is of a network")
    if options.node is None:
        draft.assume("cluster.node", _NODE, "the file does not say; --node NAME")
    else:
        draft.set("cluster.node", options.node, "--node")
    return draft


def cards_of(draft: ScenarioDraft) -> int:
    """Return the number of network cards of each node."""
    return nodes()[str(draft.values["cluster.node"])].nics.count


def card_of(draft: ScenarioDraft, options: NetworkOptions) -> Link:
    """Return the link of a network card: the option, which is set, or the node's own."""
    if options.nic is not None:
        draft.set("cluster.network.nic", links()[options.nic].name, "--nic")
        return links()[options.nic]
    return nodes()[str(draft.values["cluster.node"])].nics.link


def gbit(rate: float) -> str:
    """Return a rate in B/s as text for a scenario."""
    return f"{rate * 8e-9:.6g} Gbit/s"


def names_of_hosts(hosts: Sequence[str]) -> str:
    """Return the first and last node with their hosts, for a comment."""
    last = len(hosts) - 1
    return f"node0 is {hosts[0]}" + (f", node{last} is {hosts[last]}" if last else "")


def switch_name(name: str) -> str:
    """Return a switch's name for a custom network: no pattern, and not like a card or a port."""
    plain = "".join(letter if letter.isalnum() or letter in "-_.:" else "_" for letter in name)
    return f"switch-{plain}"


def set_edges(draft: ScenarioDraft, edges: list[Edge], source: str) -> None:
    """Set a custom network with these edges. Raises ImportFileError for none."""
    if not edges:
        raise ImportFileError("must have links between nodes and switches, but has none")
    # Checked before writing: a scenario has a limited number of values, and an edge several.
    if len(edges) > _MOST_EDGES:
        raise ImportFileError(
            f"must have at most {_MOST_EDGES:,} links of its own, but has {len(edges):,}: --switch "
            "NAME takes what is under one switch"
        )
    draft.set("cluster.network.fabric", "custom", source)
    draft.set("cluster.network.edges", edges, "full duplex; node0/nic0 is a card, others switches")

"""The disturbances of the network in a scenario: background traffic and link changes."""

from __future__ import annotations

from fnmatch import fnmatchcase

import numpy as np

from dpsim.base.arrays import IntArray
from dpsim.base.errors import DpsimError, suggestion
from dpsim.disturbance import DisturbanceConfig
from dpsim.network import Background, Conditions, LinkChange
from dpsim.topology import Cluster


def conditions_on(
    disturbance: DisturbanceConfig, network: Cluster, workers: IntArray
) -> Conditions:
    """Return the background traffic and the link changes of ``disturbance``.

    GPU i is rank ``workers[i]`` of ``network``.

    Raises DpsimError for links or GPUs that do not exist.
    """
    for number, flow in enumerate(disturbance.background):
        if max(flow.source, flow.destination) >= len(workers):
            raise DpsimError(
                f"disturbance.background[{number}]: must name GPUs from 0 to {len(workers) - 1}, "
                f"but got {max(flow.source, flow.destination)}"
            )
    background = tuple(
        Background(int(workers[flow.source]), int(workers[flow.destination]), flow.rate or np.inf)
        for flow in disturbance.background
    )
    changes = [
        LinkChange(change.at, link, change.factor)
        for number, change in enumerate(disturbance.links)
        for link in _links(network, change.link, number)
    ]
    return Conditions(background, tuple(changes))


def _links(cluster: Cluster, pattern: str, number: int) -> list[int]:
    """Return the links whose names match ``pattern``, a shell wildcard."""
    names = [cluster.link_name(link) for link in range(len(cluster.capacities))]
    matching = [link for link, name in enumerate(names) if fnmatchcase(name, pattern)]
    if not matching:
        raise DpsimError(
            f"disturbance.links[{number}].link: must name a link, but got "
            f"{pattern!r}{suggestion(pattern, names)}"
        )
    return matching

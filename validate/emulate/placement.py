"""Which ranks a job has and where they run.

Its workers first, one a host, then its parameter servers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsim.base.errors import DpsimError
from dpsim.engine import Job
from dpsim.network import InNetworkModel
from dpsim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Placement:
    """``workers`` and then ``servers`` ranks, and where each runs.

    ``hosts[rank]`` is the number of its host.
    """

    workers: int
    servers: int
    hosts: tuple[int, ...]

    @property
    def ranks(self) -> int:
        """All of them."""
        return self.workers + self.servers


def placement(scenario: Scenario) -> Placement:
    """The ranks of ``scenario``.

    Servers that are colocated share the workers' hosts in turn, others have hosts after those.
    """
    workers = scenario.cluster.ranks
    aggregation = scenario.strategy.aggregation
    servers = aggregation.server_hosts(workers)
    return Placement(workers, len(servers), (*range(workers), *servers))


def check(job: Job) -> None:
    """Raise DpsimError for what real ranks cannot do, with the key of the scenario to change."""
    scenario = job.scenario
    aggregation, disturbance = scenario.strategy.aggregation, scenario.disturbance
    counts = {int(count) for count in np.diff(job.cluster.first_rank)}
    # Ranks of one host would meet in its memory, not over the links between its GPUs.
    _refuse(
        counts != {1},
        "cluster.node: must have one GPU, since a rank is a host of its own",
        f"{max(counts)} GPUs",
    )
    _refuse(
        bool(disturbance.background),
        "disturbance.background: must be left out of real runs",
        "other traffic",
    )
    _refuse(
        bool(disturbance.links),
        "disturbance.links: must be left out of real runs",
        "links that change",
    )
    replicas = getattr(aggregation, "replicas", 1)
    _refuse(replicas > 1, "strategy.aggregation.replicas: must be 1 in real runs", str(replicas))
    library = getattr(aggregation, "library", "ideal")
    known = aggregation.torch_libraries
    _refuse(
        library not in known,
        f"strategy.aggregation.library: must be {' or '.join(known)} in real runs",
        repr(library),
    )
    _refuse(
        job.setting.library != "ideal" and job.scenario.strategy.sync.outer_step is not None,
        "strategy.aggregation.library: must be ideal in real runs of groups",
        repr(job.setting.library),
    )
    _refuse(
        getattr(aggregation, "way", "copies") != "copies",
        "strategy.aggregation.way: must be copies in real runs",
        "single-process",
    )
    models = [model for turns in job.collectives.values() for model in turns]
    in_network = any(isinstance(model, InNetworkModel) for model in models)
    _refuse(
        in_network, "strategy.aggregation.algorithm: must be one that ranks carry out", "in-network"
    )


def _refuse(wrong: bool, rule: str, got: str) -> None:
    if wrong:
        raise DpsimError(f"{rule}, but got {got}")

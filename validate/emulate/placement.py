"""The ranks of a job and the hosts that they run on.

Its workers first, one per host, then its parameter servers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dpsim.base.errors import DpsimError
from dpsim.engine import Job
from dpsim.network import InNetworkModel
from dpsim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Placement:
    """The numbers of ``workers`` and ``servers``, in order of rank, and where each runs.

    ``hosts[rank]`` is the number of its host.
    """

    workers: int
    servers: int
    hosts: tuple[int, ...]

    @property
    def ranks(self) -> int:
        """The number of all ranks."""
        return self.workers + self.servers


def placement(scenario: Scenario) -> Placement:
    """Return the ranks of ``scenario``.

    Colocated servers share the workers' hosts in turn, others have hosts after those.
    """
    workers = scenario.cluster.ranks
    aggregation = scenario.strategy.aggregation
    servers = aggregation.server_hosts(workers)
    return Placement(workers, len(servers), (*range(workers), *servers))


def check(job: Job) -> None:
    """Raise DpsimError if real ranks cannot do this, with the scenario's key to change."""
    for wrong, key, rule, got in (*_hardware_refusals(job), *_aggregation_refusals(job)):
        if wrong:
            raise DpsimError(f"{key}: {rule}, but got {got}")


# Whether it is wrong, the scenario's key, its required value, and its value.
_Refusal = tuple[bool, str, str, str]


def _hardware_refusals(job: Job) -> Iterator[_Refusal]:
    disturbance = job.scenario.disturbance
    counts = {int(count) for count in np.diff(job.cluster.first_rank)}
    # Ranks of one host would communicate in its memory, not over the links between its GPUs.
    one_gpu = "must have one GPU, since a rank is a host of its own"
    yield counts != {1}, "cluster.node", one_gpu, f"{max(counts)} GPUs"
    left_out = "must be left out of real runs"
    yield bool(disturbance.background), "disturbance.background", left_out, "other traffic"
    yield bool(disturbance.links), "disturbance.links", left_out, "links that change"


def _aggregation_refusals(job: Job) -> Iterator[_Refusal]:
    strategy = job.scenario.strategy
    aggregation, home = strategy.aggregation, "strategy.aggregation"
    replicas = getattr(aggregation, "replicas", 1)
    yield replicas > 1, f"{home}.replicas", "must be 1 in real runs", str(replicas)

    library, known = getattr(aggregation, "library", "ideal"), aggregation.torch_libraries
    one_of = f"must be {' or '.join(known)} in real runs"
    yield library not in known, f"{home}.library", one_of, repr(library)
    in_groups = job.setting.library != "ideal" and strategy.sync.outer_step is not None
    ideal = "must be ideal in real runs of groups"
    yield in_groups, f"{home}.library", ideal, repr(job.setting.library)

    copies = "must be copies in real runs"
    yield aggregation.single_process, f"{home}.way", copies, "single-process"
    models = [model for turns in job.collectives.values() for model in turns]
    in_network = any(isinstance(model, InNetworkModel) for model in models)
    by_ranks = "must be one that ranks carry out"
    yield in_network, f"{home}.algorithm", by_ranks, "in-network"

"""The input pipeline of a scenario's cluster."""

from __future__ import annotations

import numpy as np

from dpsim.scenario import Scenario
from dpsim.topology import Cluster
from dpsim.workload import Pipeline, StorageInput


def input_pipeline(scenario: Scenario, cluster: Cluster) -> Pipeline | None:
    """The pipeline through which every worker's samples come, or None where they wait in memory."""
    source = scenario.workload.input
    if not isinstance(source, StorageInput):
        return None
    from dpsim.topology import host_copy_rates

    group_of = np.zeros_like(cluster.node_of) if source.shared == "cluster" else cluster.node_of
    sharing = np.bincount(group_of)[group_of]
    return source.pipeline(scenario.workload.samples_per_gpu, sharing, host_copy_rates(cluster))

"""Predictions of measured collectives, over a transport."""

from __future__ import annotations

from functools import lru_cache

from dpsim.base.errors import DpsimError
from dpsim.engine import reduction_cost
from dpsim.hardware import Transport
from dpsim.network import transport_model
from dpsim.topology import Cluster, TestbedConfig, build_cluster, cluster_over_transport
from validate.calibrate.cases import LIBRARY, CollectiveCase


def predicted_s(case: CollectiveCase, transport: Transport) -> float:
    """Return the seconds until the last rank is done; all begin together on idle links.

    Raises DpsimError if the transport lacks parameters for that.
    """
    cluster = _cluster(case.testbed, transport)
    by_library = case.algorithm == LIBRARY
    library, algorithm = ("gloo", "auto") if by_library else ("ideal", case.algorithm)
    gamma = max(reduction_cost(gpu) for gpu, _ in cluster.accelerators)
    model = transport_model(
        algorithm, cluster, transport, operation=case.operation, library=library, gamma=gamma
    )
    if model is None:
        raise DpsimError(
            f"{case.name}: must be predicted from a transport with processors and limiters, but "
            "the profile has none"
        )
    return model.time_together(case.bytes)


# A fit predicts many cases over the same few testbeds before it changes the transport.
@lru_cache(maxsize=64)
def _cluster(testbed: TestbedConfig, transport: Transport) -> Cluster:
    return build_cluster(cluster_over_transport(testbed.cluster(), transport))

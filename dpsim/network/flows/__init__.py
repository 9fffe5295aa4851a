"""Transfers as fluid flows that share links max-min fairly, event by event."""

from dpsim.network.flows.compiled_messages import finish_by_loops
from dpsim.network.flows.flows import CollectiveRun
from dpsim.network.flows.fluid import FluidNetwork
from dpsim.network.flows.shared_network import SharedNetwork, ends_of_flows

__all__ = [
    "CollectiveRun",
    "FluidNetwork",
    "SharedNetwork",
    "ends_of_flows",
    "finish_by_loops",
]

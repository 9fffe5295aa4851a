"""How gradients meet: each way says its operations in a step, and builds the models of the collectives that carry them."""

from typing import Annotated

from pydantic import Field

from dpsim.aggregation.aggregation import Aggregation, Turns
from dpsim.aggregation.allreduce import AllReduceConfig
from dpsim.aggregation.gossip import GossipConfig
from dpsim.aggregation.host import HostConfig
from dpsim.aggregation.operation import ELEMENT, Operation, merged
from dpsim.aggregation.parameter_server import ParameterServerConfig
from dpsim.aggregation.setting import Setting
from dpsim.aggregation.sharded import ShardedConfig

AggregationConfig = Annotated[
    AllReduceConfig | ParameterServerConfig | GossipConfig | HostConfig | ShardedConfig, Field(discriminator="kind")
]

__all__ = [
    "ELEMENT",
    "Aggregation",
    "AggregationConfig",
    "AllReduceConfig",
    "GossipConfig",
    "HostConfig",
    "Operation",
    "ParameterServerConfig",
    "Setting",
    "ShardedConfig",
    "Turns",
    "merged",
]

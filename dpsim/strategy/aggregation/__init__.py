"""Gradient aggregation: each kind defines the calls of a step and the collectives that carry them.

Depends on codecs only through the properties that they declare.
"""

from typing import Annotated

from pydantic import Field

from dpsim.strategy.aggregation.aggregation import Aggregation, Meeting, Turns
from dpsim.strategy.aggregation.allreduce import AllReduceConfig
from dpsim.strategy.aggregation.collective_call import (
    ELEMENT,
    CollectiveCall,
    Group,
    in_order,
    merged,
)
from dpsim.strategy.aggregation.gossip import GossipConfig
from dpsim.strategy.aggregation.host import HostConfig
from dpsim.strategy.aggregation.offload import OffloadConfig
from dpsim.strategy.aggregation.parameter_server import ParameterServerConfig
from dpsim.strategy.aggregation.setting import LibraryChoice, Setting
from dpsim.strategy.aggregation.sharded import ShardedConfig

AggregationConfig = Annotated[
    AllReduceConfig | ParameterServerConfig | GossipConfig | HostConfig | ShardedConfig,
    Field(discriminator="kind"),
]

__all__ = [
    "ELEMENT",
    "Aggregation",
    "AggregationConfig",
    "AllReduceConfig",
    "CollectiveCall",
    "GossipConfig",
    "Group",
    "HostConfig",
    "LibraryChoice",
    "Meeting",
    "OffloadConfig",
    "ParameterServerConfig",
    "Setting",
    "ShardedConfig",
    "Turns",
    "in_order",
    "merged",
]

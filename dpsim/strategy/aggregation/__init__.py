"""Gradient aggregation: each kind defines the calls of a step and the collectives that carry them.

Depends on codecs only through the properties that they declare.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from dpsim.base.kinds import Kinds
from dpsim.base.lazy import on_demand
from dpsim.strategy.aggregation.aggregation import Aggregation, Coordination, Sent, Turns
from dpsim.strategy.aggregation.allreduce import AllReduceConfig
from dpsim.strategy.aggregation.collective_call import (
    ELEMENT,
    Calls,
    CollectiveCall,
    Group,
    in_order,
    merged,
)
from dpsim.strategy.aggregation.setting import LibraryChoice, Setting

if TYPE_CHECKING:
    from dpsim.strategy.aggregation.gossip import GossipConfig
    from dpsim.strategy.aggregation.host import HostConfig
    from dpsim.strategy.aggregation.offload import OffloadConfig
    from dpsim.strategy.aggregation.parameter_server import ParameterServerConfig
    from dpsim.strategy.aggregation.sharded import ShardedConfig

    AggregationConfig = Aggregation
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)
    # As they are listed; a new one is found by the name of its file.
    _ORDER = ("allreduce", "parameter-server", "gossip", "host", "sharded")
    AggregationConfig = Annotated[object, Kinds("kind", __name__, _ORDER)]

__all__ = [
    "ELEMENT",
    "Aggregation",
    "AggregationConfig",
    "AllReduceConfig",
    "Calls",
    "CollectiveCall",
    "Coordination",
    "GossipConfig",
    "Group",
    "HostConfig",
    "LibraryChoice",
    "OffloadConfig",
    "ParameterServerConfig",
    "Sent",
    "Setting",
    "ShardedConfig",
    "Turns",
    "in_order",
    "merged",
]

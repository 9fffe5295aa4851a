"""Overlap of communication with the backward pass: policies that merge and order calls.

The caller provides the costs of collectives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from dpsim.base.kinds import Kinds
from dpsim.base.lazy import on_demand
from dpsim.strategy.overlap.buckets import BucketsConfig
from dpsim.strategy.overlap.plan import Outlook, Overlap

if TYPE_CHECKING:
    from dpsim.strategy.overlap.mg_wfbp import MgWfbpConfig
    from dpsim.strategy.overlap.priority import PriorityConfig
    from dpsim.strategy.overlap.sequential import SequentialConfig
    from dpsim.strategy.overlap.wfbp import WfbpConfig

    OverlapConfig = SequentialConfig | WfbpConfig | MgWfbpConfig | BucketsConfig | PriorityConfig
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)
    _KINDS = {
        "sequential": "SequentialConfig",
        "wfbp": "WfbpConfig",
        "mg-wfbp": "MgWfbpConfig",
        "buckets": "BucketsConfig",
        "priority": "PriorityConfig",
    }
    OverlapConfig = Annotated[object, Kinds("kind", __name__, _KINDS)]

__all__ = [
    "BucketsConfig",
    "MgWfbpConfig",
    "Outlook",
    "Overlap",
    "OverlapConfig",
    "PriorityConfig",
    "SequentialConfig",
    "WfbpConfig",
]

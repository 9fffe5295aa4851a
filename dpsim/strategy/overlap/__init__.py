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

    OverlapConfig = Overlap
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)
    # As they are listed; a new one is found by the name of its file.
    _ORDER = ("sequential", "wfbp", "mg-wfbp", "buckets", "priority")
    OverlapConfig = Annotated[object, Kinds("kind", __name__, _ORDER)]

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

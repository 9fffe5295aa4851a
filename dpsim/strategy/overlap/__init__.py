"""When communication runs beside the backward pass: each policy merges and orders calls.

What a collective costs is handed to it.
"""

from typing import Annotated

from pydantic import Field

from dpsim.strategy.overlap.buckets import BucketsConfig
from dpsim.strategy.overlap.mg_wfbp import MgWfbpConfig
from dpsim.strategy.overlap.plan import Outlook, Overlap, in_order
from dpsim.strategy.overlap.priority import PriorityConfig
from dpsim.strategy.overlap.sequential import SequentialConfig
from dpsim.strategy.overlap.wfbp import WfbpConfig

OverlapConfig = Annotated[
    SequentialConfig | WfbpConfig | MgWfbpConfig | BucketsConfig | PriorityConfig,
    Field(discriminator="kind"),
]

__all__ = [
    "BucketsConfig",
    "MgWfbpConfig",
    "Outlook",
    "Overlap",
    "OverlapConfig",
    "PriorityConfig",
    "SequentialConfig",
    "WfbpConfig",
    "in_order",
]

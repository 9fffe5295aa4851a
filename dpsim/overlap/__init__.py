"""When communication runs beside the backward pass: each policy merges and orders operations."""

from typing import Annotated

from pydantic import Field

from dpsim.overlap.buckets import BucketsConfig
from dpsim.overlap.mg_wfbp import MgWfbpConfig
from dpsim.overlap.plan import Outlook, Overlap, in_order
from dpsim.overlap.priority import PriorityConfig
from dpsim.overlap.sequential import SequentialConfig
from dpsim.overlap.wfbp import WfbpConfig

OverlapConfig = Annotated[
    SequentialConfig | WfbpConfig | MgWfbpConfig | BucketsConfig | PriorityConfig, Field(discriminator="kind")
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

"""When communication runs beside the backward pass: each policy merges and orders operations."""

from typing import Annotated

from pydantic import Field

from dpsim.overlap.buckets import BucketsConfig
from dpsim.overlap.sequential import SequentialConfig

OverlapConfig = Annotated[SequentialConfig | BucketsConfig, Field(discriminator="kind")]

__all__ = ["BucketsConfig", "OverlapConfig", "SequentialConfig"]

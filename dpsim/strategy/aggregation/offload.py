"""Offloading: state that sharded training keeps in host memory or on drives, instead of the GPU.

DeepSpeed calls it ZeRO-Offload and ZeRO-Infinity (Ren et al., USENIX ATC 2021; Rajbhandari et al.,
SC 2021), torch CPUOffloadPolicy.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from pydantic import Field

from dpsim.base.arrays import FloatArray
from dpsim.base.config import Config
from dpsim.base.units import BytesPerSecond


class HostCopies(NamedTuple):
    """Bytes per layer that a worker copies: shards of weights before passes, gradients after."""

    forward: FloatArray
    backward: FloatArray
    gradients: FloatArray


class OffloadConfig(Config):
    """The state that is kept outside the GPUs' memory, and where."""

    optimizer: Literal["none", "cpu", "nvme"] = Field(
        "none",
        description=(
            "cpu: the optimiser's state and the shards of gradients are in the host's memory, and "
            "its processors update the weights (DeepSpeedCPUAdam); nvme: the state is on the "
            "node's drives, from which each step reads it and to which it is written."
        ),
    )
    parameters: Literal["none", "cpu", "nvme"] = Field(
        "none",
        description=(
            "Stage 3: where shards of weights are, which are copied to the GPU each time before "
            "they are gathered."
        ),
    )
    activations: Literal["none", "cpu"] = Field(
        "none",
        description=(
            "cpu: what a block keeps for backward is copied to the host's memory, and back before "
            "the block's backward pass."
        ),
    )
    nvme_rate: BytesPerSecond = Field(
        default=6e9,
        description=(
            "B/s that a node's drives read, and as many that they write. The default is an "
            "assumption: one drive on PCIe 4.0."
        ),
    )

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that are kept elsewhere."""
        places = {
            "optimizer": self.optimizer,
            "parameters": self.parameters,
            "activations": self.activations,
        }
        return tuple(part for part, place in places.items() if place != "none")

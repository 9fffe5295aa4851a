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
    """State kept outside GPU memory, and its location."""

    optimizer: Literal["none", "cpu", "nvme"] = Field(
        "none",
        description=(
            "cpu: optimiser state and gradient shards are in host memory, and the CPUs update the "
            "weights (DeepSpeedCPUAdam); nvme: the state is on the node's drives, and each step "
            "reads and writes it."
        ),
    )
    parameters: Literal["none", "cpu", "nvme"] = Field(
        "none",
        description="Stage 3: location of weight shards, copied to the GPU before each gather.",
    )
    activations: Literal["none", "cpu"] = Field(
        "none",
        description="cpu: a block's activations are copied to the host, and back before backward.",
    )
    nvme_rate: BytesPerSecond = Field(
        default=6e9,
        description=(
            "Rate at which a node's drives read, and also write. The default is an assumption: "
            "one drive on PCIe 4.0."
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

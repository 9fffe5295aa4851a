"""AlexNet as in torchvision: one tower (Krizhevsky 2014), 61,100,840 parameters."""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model


def alexnet(name: str) -> Model:
    """Build AlexNet for 1,000 classes."""
    b = Builder((3, 224, 224))
    for index, (channels, kernel, stride, padding, pooled) in enumerate(
        (
            (64, 11, 4, 2, True),
            (192, 5, 1, 2, True),
            (384, 3, 1, 1, False),
            (256, 3, 1, 1, False),
            (256, 3, 1, 1, True),
        )
    ):
        b.conv(f"conv{index + 1}", channels, kernel, stride, padding, bias=True)
        b.activation(f"relu{index + 1}")
        if pooled:
            b.pool(f"pool{index + 1}", 3, 2)
    b.flatten()
    for index, width in ((6, 4096), (7, 4096)):
        b.activation(f"drop{index}", kept=True)
        b.linear(f"fc{index}", width)
        b.activation(f"relu{index}")
    b.linear("fc8", 1000)
    return b.build(name, "224x224 image")

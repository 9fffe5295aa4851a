"""VGG (Simonyan and Zisserman 2015) as in torchvision: 138,357,544 parameters in VGG-16.

It has no batch norms. The version for CIFAR has them, and a single linear layer: 14,728,266
parameters in VGG-16.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model

_CHANNELS = (64, 128, 256, 512, 512)


def vgg(name: str, depths: tuple[int, int, int, int, int]) -> Model:
    """Build VGG with ``depths`` 3x3 convolutions in its five stages, for 1,000 classes."""
    b = Builder((3, 224, 224))
    for stage, (channels, depth) in enumerate(zip(_CHANNELS, depths, strict=True), start=1):
        for index in range(1, depth + 1):
            b.conv(f"conv{stage}_{index}", channels, 3, padding=1, bias=True)
            b.activation(f"relu{stage}_{index}")
        b.pool(f"pool{stage}", 2, 2)
    b.flatten()
    for index in (6, 7):
        b.linear(f"fc{index}", 4096)
        b.activation(f"relu{index}")
        b.activation(f"drop{index}", kept=True)
    b.linear("fc8", 1000)
    return b.build(name, "224x224 image")


def vgg_cifar(name: str, depths: tuple[int, int, int, int, int]) -> Model:
    """Build VGG with batch norm for CIFAR-10: 32x32 images reduced to one pixel of 512 channels."""
    b = Builder((3, 32, 32))
    for stage, (channels, depth) in enumerate(zip(_CHANNELS, depths, strict=True), start=1):
        for index in range(1, depth + 1):
            b.conv(f"conv{stage}_{index}", channels, 3, padding=1, bias=True)
            b.batch_norm(f"bn{stage}_{index}")
            b.activation(f"relu{stage}_{index}")
        b.pool(f"pool{stage}", 2, 2)
    b.flatten()
    b.linear("classifier", 10)
    return b.build(name, "32x32 image")

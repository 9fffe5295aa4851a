"""DenseNet (Huang et al. 2017) as in torchvision.

28,681,000 parameters in DenseNet-161, 20,013,928 in DenseNet-201. Every layer of a block reads all
previous outputs, copied into one tensor that is kept for the backward pass.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model


def densenet(name: str, growth: int, channels: int, depths: tuple[int, int, int, int]) -> Model:
    """Build DenseNet of blocks of ``depths`` layers, each of which adds ``growth`` channels."""
    b = Builder((3, 224, 224))
    b.conv("conv0", channels, 7, 2, 3)
    b.batch_norm("norm0")
    b.activation("relu0")
    b.pool("pool0", 3, 2, 1)
    for block, depth in enumerate(depths, start=1):
        for index in range(1, depth + 1):
            _layer(b, f"denseblock{block}.denselayer{index}", growth)
        b.activation(f"denseblock{block}.cat", kept=True)
        if block < len(depths):
            _transition(b, f"transition{block}")
    b.batch_norm("norm5")
    b.activation("relu5")
    b.global_pool("avgpool")
    b.flatten()
    b.linear("classifier", 1000)
    return b.build(name, "224x224 image")


def _layer(b: Builder, name: str, growth: int) -> None:
    channels, *sides = b.shape
    b.activation(f"{name}.cat", kept=True)
    # The paper's bottleneck: 1x1 to four times the growth, then 3x3.
    for index, width, kernel in ((1, 4 * growth, 1), (2, growth, 3)):
        b.batch_norm(f"{name}.norm{index}")
        b.activation(f"{name}.relu{index}")
        b.conv(f"{name}.conv{index}", width, kernel, padding=kernel // 2)
    b.shape = (channels + growth, *sides)


def _transition(b: Builder, name: str) -> None:
    b.batch_norm(f"{name}.norm")
    b.activation(f"{name}.relu")
    b.conv(f"{name}.conv", b.shape[0] // 2, 1)
    b.pool(f"{name}.pool", 2, 2)

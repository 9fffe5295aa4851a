"""GoogLeNet (Szegedy et al. 2015) as in torchvision: 6,624,904 parameters.

With batch norm, 3x3 convolutions instead of 5x5, and without the auxiliary heads.
"""

from __future__ import annotations

from dpsim.workload.layer import Model
from dpsim.workload.models.conv_units import Units

# Channels of a block's branches: 1x1; 1x1, 3x3; 1x1, 5x5; the 1x1 after a pool.
_BLOCKS = {
    "3a": (64, 96, 128, 16, 32, 32),
    "3b": (128, 128, 192, 32, 96, 64),
    "4a": (192, 96, 208, 16, 48, 64),
    "4b": (160, 112, 224, 24, 64, 64),
    "4c": (128, 128, 256, 24, 64, 64),
    "4d": (112, 144, 288, 32, 64, 64),
    "4e": (256, 160, 320, 32, 128, 128),
    "5a": (256, 160, 320, 32, 128, 128),
    "5b": (384, 192, 384, 48, 128, 128),
}


def googlenet(name: str) -> Model:
    """Build GoogLeNet for 1,000 classes."""
    net = Units((3, 224, 224))
    net.unit("conv1", 64, 7, 2, 3)
    net.b.pool("maxpool1", 3, 2, ceil=True)
    net.unit("conv2", 64, 1)
    net.unit("conv3", 192, 3, padding=1)
    net.b.pool("maxpool2", 3, 2, ceil=True)
    for block, widths in _BLOCKS.items():
        _inception(net, f"inception{block}", *widths)
        if block == "3b":
            net.b.pool("maxpool3", 3, 2, ceil=True)
        elif block == "4e":
            net.b.pool("maxpool4", 2, 2, ceil=True)
    net.head(1000)
    return net.b.build(name, "224x224 image")


def _inception(
    net: Units,
    name: str,
    single: int,
    before3: int,
    three: int,
    before5: int,
    five: int,
    pooled: int,
) -> None:
    def last() -> None:
        net.b.pool(f"{name}.branch4.pool", 3, 1, 1)
        net.unit(f"{name}.branch4", pooled, 1)

    net.b.concatenate(
        f"{name}.cat",
        lambda: net.unit(f"{name}.branch1", single, 1),
        lambda: net.chain(f"{name}.branch2", (before3, 1), (three, 3)),
        lambda: net.chain(f"{name}.branch3", (before5, 1), (five, 3)),
        last,
    )

"""3D U-Net (Cicek et al. 2016; Isensee et al. 2019), as MLPerf trains it on KiTS19.

Patches of 128^3 in, three classes out. Convolutions with instance norms halve the patch five times,
and transposed convolutions double it again, concatenated with the activations of the same size.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model
from dpsim.workload.layer_stack import Shape

_CHANNELS = (32, 64, 128, 256, 320, 320)


def unet3d(name: str) -> Model:
    """Build 3D U-Net for patches of 128^3."""
    b = Builder((1, 128, 128, 128))
    sizes: list[Shape] = []
    for level, channels in enumerate(_CHANNELS):
        _unit(b, f"down.{level}.conv1", channels, stride=1 if level == 0 else 2)
        _unit(b, f"down.{level}.conv2", channels)
        sizes.append(b.shape)
    for level in reversed(range(len(_CHANNELS) - 1)):
        channels, joined = _CHANNELS[level], sizes[level]
        b.conv_transpose(f"up.{level}.deconv", channels, 2, 2, bias=True)
        b.shape = (2 * channels, *joined[1:])
        b.activation(f"up.{level}.cat", kept=True)
        _unit(b, f"up.{level}.conv1", channels)
        _unit(b, f"up.{level}.conv2", channels)
    b.conv("output", 3, 1, bias=True)
    b.cross_entropy("loss")
    return b.build(name, "128x128x128 patch")


def _unit(b: Builder, name: str, channels: int, stride: int = 1) -> None:
    """Add a convolution, instance norm and ReLU."""
    b.conv(f"{name}.conv", channels, 3, stride, 1)
    b.group_norm(f"{name}.norm")
    b.activation(f"{name}.relu")

"""ResNet with bottlenecks (He et al. 2016), in the 1.5 form of torchvision and NVIDIA: the 3x3 convolution has the stride."""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model


def resnet(name: str, depths: tuple[int, int, int, int]) -> Model:
    """ResNet with ``depths`` bottlenecks in its four stages, for 1,000 classes: (3, 4, 6, 3) is ResNet-50."""
    b = Builder((3, 224, 224))
    _unit(b, "conv1", "bn1", 64, 7, stride=2, padding=3)
    b.activation("relu")
    b.pool("maxpool", 3, 2, 1)
    for stage, depth in enumerate(depths, start=1):
        for block in range(depth):
            _bottleneck(b, f"layer{stage}.{block}", 32 << stage, stride=2 if stage > 1 and block == 0 else 1)
    b.adaptive_pool("avgpool", 1)
    b.flatten()
    b.linear("fc", 1000)
    return b.build(name, "224x224 image")


def _bottleneck(b: Builder, name: str, width: int, stride: int) -> None:
    entering = b.shape
    _unit(b, f"{name}.conv1", f"{name}.bn1", width, 1)
    b.activation(f"{name}.relu1")
    _unit(b, f"{name}.conv2", f"{name}.bn2", width, 3, stride=stride, padding=1)
    b.activation(f"{name}.relu2")
    _unit(b, f"{name}.conv3", f"{name}.bn3", 4 * width, 1)
    if b.shape != entering:
        b.shape = entering
        b.conv(f"{name}.downsample.0", 4 * width, 1, stride)
        b.batch_norm(f"{name}.downsample.1", kept=False)
    b.add(f"{name}.add")
    b.activation(f"{name}.relu3")


def _unit(b: Builder, conv: str, norm: str, channels: int, kernel: int, *, stride: int = 1, padding: int = 0) -> None:
    b.conv(conv, channels, kernel, stride, padding)
    b.batch_norm(norm)

"""SSD300 (Liu et al. 2016) on ResNet-50, as NVIDIA's DeepLearningExamples have it.

ResNet-50 up to its third stage at stride 8.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model
from dpsim.workload.layer_stack import Shape
from dpsim.workload.models.resnet import bottleneck

_CLASSES = 81
# Channels in the middle and at the end of each extra block, and the default boxes per cell of the
# six scales.
_EXTRA = ((256, 512), (256, 512), (128, 256), (128, 256), (128, 256))
_BOXES = (4, 6, 6, 6, 4, 4)


def ssd300() -> Model:
    """SSD on 300x300 images of COCO: 8,732 boxes."""
    b = Builder((3, 300, 300))
    _backbone(b)
    scales: list[Shape] = [b.shape]
    for index, (middle, last) in enumerate(_EXTRA):
        # The first three halve the image (38, 19, 10, 5), the others lose its border (3, 1).
        shrinks = index < 3
        _unit(b, f"additional{index}.0", middle, 1, 1, 0)
        _unit(b, f"additional{index}.1", last, 3, 2 if shrinks else 1, 1 if shrinks else 0)
        scales.append(b.shape)
    for index, (scale, boxes) in enumerate(zip(scales, _BOXES, strict=True)):
        for name, outputs in (("loc", 4), ("conf", _CLASSES)):
            b.shape = scale
            b.conv(f"{name}{index}", boxes * outputs, 3, padding=1, bias=True)
    return b.build("ssd300", "300x300 image")


def _backbone(b: Builder) -> None:
    """ResNet-50 up to its third stage, which keeps its stride of 8."""
    b.conv("conv1", 64, 7, 2, 3)
    b.batch_norm("bn1")
    b.activation("relu")
    b.pool("maxpool", 3, 2, 1)
    for stage, depth in ((1, 3), (2, 4), (3, 6)):
        for block in range(depth):
            stride = 2 if (stage, block) == (2, 0) else 1
            bottleneck(b, f"layer{stage}.{block}", 32 << stage, stride)


def _unit(b: Builder, name: str, channels: int, kernel: int, stride: int, padding: int) -> None:
    b.conv(f"{name}.conv", channels, kernel, stride, padding)
    b.batch_norm(f"{name}.bn")
    b.activation(f"{name}.relu")

"""SSD300 (Liu et al. 2016): a ResNet up to its third stage at stride 8, and six scales of boxes.

``ssd300`` is on ResNet-50, as in NVIDIA's DeepLearningExamples. ``ssd300-resnet34`` is MLPerf's:
its extra convolutions have biases and no norms.
"""

from __future__ import annotations

from collections.abc import Callable

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model
from dpsim.workload.layer_stack import Shape
from dpsim.workload.models.resnet import basic_block, bottleneck, stem

_CLASSES = 81
# Inner and output channels of each extra block, and default boxes per cell of the six scales.
_EXTRA = ((256, 512), (256, 512), (128, 256), (128, 256), (128, 256))
_BOXES = (4, 6, 6, 6, 4, 4)


def ssd300(name: str, *, mlperf: bool = False) -> Model:
    """Build SSD for 300x300 images of COCO, with 8,732 boxes; ``mlperf``: on ResNet-34."""
    b = Builder((3, 300, 300))
    _backbone(b, basic_block if mlperf else bottleneck)
    _scales(b, normed=not mlperf)
    return b.build(name, "300x300 image")


def _backbone(b: Builder, block: Callable[[Builder, str, int, int], None]) -> None:
    """Add a ResNet up to its third stage, which does not halve the image."""
    stem(b)
    for stage, depth in ((1, 3), (2, 4), (3, 6)):
        for index in range(depth):
            stride = 2 if (stage, index) == (2, 0) else 1
            block(b, f"layer{stage}.{index}", 32 << stage, stride)


def _scales(b: Builder, *, normed: bool) -> None:
    """Add the extra blocks, and the predictions for the boxes of each scale."""
    scales: list[Shape] = [b.shape]
    for index, (middle, last) in enumerate(_EXTRA):
        # The first three halve the image (19, 10, 5), the others remove its border (3, 1).
        shrinks = index < 3
        _unit(b, f"additional{index}.0", middle, 1, 1, 0, normed)
        stride, padding = (2, 1) if shrinks else (1, 0)
        _unit(b, f"additional{index}.1", last, 3, stride, padding, normed)
        scales.append(b.shape)
    for index, (scale, boxes) in enumerate(zip(scales, _BOXES, strict=True)):
        for name, outputs in (("loc", 4), ("conf", _CLASSES)):
            b.shape = scale
            b.conv(f"{name}{index}", boxes * outputs, 3, padding=1, bias=True)


def _unit(
    b: Builder, name: str, channels: int, kernel: int, stride: int, padding: int, normed: bool
) -> None:
    b.conv(f"{name}.conv", channels, kernel, stride, padding, bias=not normed)
    if normed:
        b.batch_norm(f"{name}.bn")
    b.activation(f"{name}.relu")

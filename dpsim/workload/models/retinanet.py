"""RetinaNet (Lin et al. 2017): a feature pyramid, and two heads of four convolutions on each level.

``retinanet`` is MLPerf's, on ResNeXt-50 32x4d and 800x800 images, for 264 classes of Open Images.
``ssd320-resnet50-fpn`` is TensorFlow's SSD of the same design, on ResNet-50 and 320x320 images; its
levels share the heads' weights, but not the norms.
"""

from __future__ import annotations

from functools import partial
from math import prod

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model
from dpsim.workload.layer_stack import Shape
from dpsim.workload.models.detection import (
    FrozenNorms,
    coarser_levels,
    over_levels,
    pyramid,
    resnet50,
)
from dpsim.workload.models.resnet import bottleneck
from dpsim.workload.trainable import frozen_before


def retinanet(name: str) -> Model:
    """Build RetinaNet as MLPerf trains it: 37,060,652 parameters."""
    b = FrozenNorms((3, 800, 800))
    backbone = resnet50(b, partial(bottleneck, widening=2, groups=32))
    _heads(b, coarser_levels(b, pyramid(b, backbone[1:])), boxes=9, classes=264, normed=False)
    # The stem and the first stage keep their pre-trained weights.
    return frozen_before(b.build(name, "800x800 image"), "layer2.")


def ssd320(name: str) -> Model:
    """Build SSD320 on ResNet-50 with a feature pyramid, as in NVIDIA's DeepLearningExamples."""
    b = Builder((3, 320, 320))
    backbone = resnet50(b, bottleneck)
    _heads(b, coarser_levels(b, pyramid(b, backbone[1:])), boxes=6, classes=91, normed=True)
    return b.build(name, "320x320 image")


def _heads(b: Builder, levels: list[Shape], *, boxes: int, classes: int, normed: bool) -> None:
    """Predict the class and sides of ``boxes`` boxes at each pixel, with the loss over all."""
    all_boxes = boxes * sum(prod(level[1:]) for level in levels)
    for name, outputs in (("classes", classes), ("sides", 4)):

        def head(level: str, tied: bool, name: str = name, outputs: int = outputs) -> None:
            _tower(b, f"{name}.{level}", tied, normed)
            b.conv(f"{name}.{level}.out", boxes * outputs, 3, padding=1, bias=True, tied=tied)

        over_levels(b, levels, head)
        # The outputs of all levels are copied into one tensor.
        b.shape = (all_boxes, outputs)
        b.add(f"{name}.cat", terms=1, kept=True)
        if name == "classes":
            b.cross_entropy("loss")


def _tower(b: Builder, name: str, tied: bool, normed: bool) -> None:
    for index in range(4):
        b.conv(f"{name}.conv{index}", 256, 3, padding=1, bias=not normed, tied=tied)
        if normed:
            b.batch_norm(f"{name}.bn{index}")
        b.activation(f"{name}.relu{index}")

"""Mask R-CNN (He et al. 2017) on ResNet-50 with a feature pyramid, as MLPerf trains it on COCO.

Images are scaled to a short side of 800 and padded to 1,344, as in submissions with CUDA graphs.
The heads process 512 boxes per image, a quarter of which contain an object and get a mask.
"""

from __future__ import annotations

from functools import partial

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model
from dpsim.workload.models.detection import FrozenNorms, over_levels, pyramid, resnet50
from dpsim.workload.models.resnet import bottleneck
from dpsim.workload.trainable import frozen_before

_CLASSES = 81
_SHAPES = 3  # of boxes at each pixel of a level
_BOXES, _MASKS = 512, 128


def mask_rcnn(name: str) -> Model:
    """Build Mask R-CNN for images of 800x1344."""
    b = FrozenNorms((3, 800, 1344))
    levels = pyramid(b, resnet50(b, partial(bottleneck, strided_first=True)))
    b.shape = levels[-1]
    b.pool("fpn.pool", 1, 2)  # every second pixel of the coarsest
    levels.append(b.shape)

    over_levels(b, levels, lambda level, tied: _proposals(b, f"rpn.{level}", tied))
    _boxes(b)
    _masks(b)
    # The stem and the first stage keep their pre-trained weights.
    return frozen_before(b.build(name, "800x1344 image"), "layer2.")


def _proposals(b: Builder, name: str, tied: bool) -> None:
    """Predict for each pixel whether it has an object, and its box."""
    b.conv(f"{name}.conv", 256, 3, padding=1, bias=True, tied=tied)
    b.activation(f"{name}.relu")
    features = b.shape
    b.conv(f"{name}.objects", _SHAPES, 1, bias=True, tied=tied)
    b.shape = features
    b.conv(f"{name}.boxes", 4 * _SHAPES, 1, bias=True, tied=tied)


def _boxes(b: Builder) -> None:
    """Add two linear layers on each box's content, then its class, and its sides per class."""
    b.shape = (256, 1, 1)
    b.roi_align("box.align", _BOXES, 7)
    b.shape = (_BOXES, 256 * 7 * 7)
    for index in (6, 7):
        b.linear(f"box.fc{index}", 1024)
        b.activation(f"box.relu{index}")
    features = b.shape
    b.linear("box.classes", _CLASSES)
    b.shape = features
    b.linear("box.sides", 4 * _CLASSES)


def _masks(b: Builder) -> None:
    """Add four convolutions on each box with an object, upsampling, and a mask per class."""
    b.shape = (256, 1, 1)
    b.roi_align("mask.align", _MASKS, 14)
    for index in range(4):
        b.conv(f"mask.conv{index}", 256, 3, padding=1, bias=True)
        b.activation(f"mask.relu{index}")
    b.conv_transpose("mask.deconv", 256, 2, 2, bias=True)
    b.activation("mask.relu")
    b.conv("mask.out", _CLASSES, 1, bias=True)
    b.cross_entropy("mask.loss")

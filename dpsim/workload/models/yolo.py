"""YOLOv3 (Redmon and Farhadi 2018): Darknet-53 and three heads.

61,949,149 parameters for the 80 classes of COCO, 61,626,049 for the 20 of VOC.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model
from dpsim.workload.layer_stack import Shape

_DEPTHS = (1, 2, 8, 8, 4)
_BOXES = 3  # per cell and scale, each with four sides, an objectness and class scores


def yolov3(name: str, classes: int) -> Model:
    """Build YOLOv3 for 416x416 images."""
    b = Builder((3, 416, 416))
    scales = _darknet53(b)
    outputs = _BOXES * (5 + classes)
    for scale, width in enumerate((512, 256, 128)):
        # The first head is on the coarsest grid, each other on one twice as fine.
        if scale > 0:
            _neck(b, f"neck{scale}", width, finer=scales[-1 - scale])
        _head(b, f"head{scale}", width, outputs)
    return b.build(name, "416x416 image")


def _darknet53(b: Builder) -> list[Shape]:
    """Add the convolutions of the backbone; return the output shape of each stage."""
    _unit(b, "stem", 32, 3)
    scales: list[Shape] = []
    for stage, depth in enumerate(_DEPTHS, start=1):
        channels = 32 * 2**stage
        _unit(b, f"stage{stage}.down", channels, 3, stride=2)
        for block in range(depth):
            _unit(b, f"stage{stage}.{block}.conv1", channels // 2, 1)
            _unit(b, f"stage{stage}.{block}.conv2", channels, 3)
            b.add(f"stage{stage}.{block}.add", kept=True)
        scales.append(b.shape)
    return scales


def _neck(b: Builder, name: str, width: int, finer: Shape) -> None:
    """Upsample the input, and concatenate it with a ``finer`` stage's output."""
    _unit(b, f"{name}.reduce", width, 1)
    b.upsample(f"{name}.upsample", 2)
    deeper = b.shape
    b.shape = (deeper[0] + finer[0], *finer[1:])
    b.activation(f"{name}.cat", kept=True)


def _head(b: Builder, name: str, width: int, outputs: int) -> None:
    """Add five units, from which the next head continues, and the predictions of this scale."""
    for index in range(5):
        # Kernels of 1 and 3 alternate, as in the backbone.
        if index % 2 == 0:
            _unit(b, f"{name}.conv{index}", width, 1)
        else:
            _unit(b, f"{name}.conv{index}", 2 * width, 3)
    continued = b.shape
    _unit(b, f"{name}.out0", 2 * width, 3)
    b.conv(f"{name}.out1", outputs, 1, bias=True)
    b.shape = continued


def _unit(b: Builder, name: str, channels: int, kernel: int, stride: int = 1) -> None:
    """Add a convolution, batch norm and leaky ReLU."""
    b.conv(f"{name}.conv", channels, kernel, stride, kernel // 2)
    b.batch_norm(f"{name}.bn")
    b.activation(f"{name}.relu")

"""ResNet (He et al. 2016), version 1.5: a bottleneck's 3x3 convolution has the stride.

ResNeXt (Xie et al. 2017) has wider 3x3 convolutions in groups: "32x4d" has 32 of 4 channels in its
first stage. SE-ResNeXt (Hu et al. 2018) scales the channels. For CIFAR there are the paper's narrow
models (269,722 parameters in ResNet-20) and the common ResNet-18, whose stem keeps the image's size
(11,173,962).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model
from dpsim.workload.layer_stack import Shape


def resnet(name: str, depths: Sequence[int], *, basic: bool = False) -> Model:
    """Build ResNet with ``depths`` bottlenecks in its four stages, for 1,000 classes.

    (3, 4, 6, 3) is ResNet-50. With ``basic`` blocks of two 3x3 convolutions (2, 2, 2, 2) is
    ResNet-18, and (3, 4, 6, 3) ResNet-34.
    """
    return _for_imagenet(name, depths, basic_block if basic else bottleneck)


def resnext(name: str, depths: Sequence[int], *, squeeze: bool = False) -> Model:
    """Build ResNeXt "32x4d" with ``depths`` bottlenecks in its four stages, for 1,000 classes."""
    return _for_imagenet(name, depths, partial(bottleneck, widening=2, groups=32, squeeze=squeeze))


def _for_imagenet(name: str, depths: Sequence[int], block: Callable[..., None]) -> Model:
    b = Builder((3, 224, 224))
    stem(b)
    stages(b, depths, block)
    return _classified(b, 1000, name, "224x224 image")


def resnet_cifar(name: str, depths: Sequence[int], width: int, *, projected: bool = True) -> Model:
    """Build ResNet of basic blocks for CIFAR-10: a 3x3 stem of stride 1, without a pool.

    (2, 2, 2, 2) blocks from 64 channels are the common ResNet-18. (n, n, n) blocks from 16
    channels, with shortcuts not ``projected``, are the paper's models of 6 n + 2 layers.
    """
    b = Builder((3, 32, 32))
    _unit(b, "conv1", "bn1", width, 3, padding=1)
    b.activation("relu")
    stages(b, depths, partial(basic_block, projected=projected), width)
    return _classified(b, 10, name, "32x32 image")


def stem(b: Builder) -> None:
    """Add the stem: a 7x7 convolution and a pool, each of stride 2."""
    _unit(b, "conv1", "bn1", 64, 7, stride=2, padding=3)
    b.activation("relu")
    b.pool("maxpool", 3, 2, 1)


def stages(
    b: Builder, depths: Sequence[int], block: Callable[..., None], width: int = 64
) -> list[Shape]:
    """Add stages of ``block(b, name, width, stride)``; return their output shapes.

    All but the first halve the image and double the ``width``.
    """
    outputs: list[Shape] = []
    for stage, depth in enumerate(depths):
        for index in range(depth):
            stride = 2 if stage > 0 and index == 0 else 1
            block(b, f"layer{stage + 1}.{index}", width << stage, stride)
        outputs.append(b.shape)
    return outputs


def _classified(b: Builder, classes: int, name: str, sample: str) -> Model:
    """Add the output layer, and return the finished model."""
    b.global_pool("avgpool")
    b.flatten()
    b.linear("fc", classes)
    return b.build(name, sample)


def basic_block(b: Builder, name: str, width: int, stride: int, *, projected: bool = True) -> None:
    """Add two 3x3 convolutions and a shortcut.

    The shortcut is ``projected`` to a new shape, or else strided and padded with zeros.
    """
    entering = b.shape
    _unit(b, f"{name}.conv1", f"{name}.bn1", width, 3, stride=stride, padding=1)
    b.activation(f"{name}.relu1")
    _unit(b, f"{name}.conv2", f"{name}.bn2", width, 3, padding=1)
    if b.shape != entering and projected:
        _shortcut(b, name, entering, width, stride)
    b.add(f"{name}.add")
    b.activation(f"{name}.relu2")


def bottleneck(
    b: Builder,
    name: str,
    width: int,
    stride: int,
    *,
    widening: int = 1,
    groups: int = 1,
    squeeze: bool = False,
    strided_first: bool = False,
) -> None:
    """Add 1x1, 3x3 and 1x1 convolutions, the last of 4 x ``width`` channels, and a shortcut.

    The 3x3 convolution has ``widening`` times ``width`` channels, in ``groups``.
    ``strided_first``: the first convolution has the stride, as in the paper.
    """
    entering, inner = b.shape, widening * width
    first, second = (stride, 1) if strided_first else (1, stride)
    _unit(b, f"{name}.conv1", f"{name}.bn1", inner, 1, stride=first)
    b.activation(f"{name}.relu1")
    _unit(b, f"{name}.conv2", f"{name}.bn2", inner, 3, stride=second, padding=1, groups=groups)
    b.activation(f"{name}.relu2")
    _unit(b, f"{name}.conv3", f"{name}.bn3", 4 * width, 1)
    if squeeze:
        b.squeeze_excite(f"{name}.se", 4 * width // 16)
    if b.shape != entering:
        _shortcut(b, name, entering, 4 * width, stride)
    b.add(f"{name}.add")
    b.activation(f"{name}.relu3")


def _shortcut(b: Builder, name: str, entering: Shape, channels: int, stride: int) -> None:
    b.shape = entering
    b.conv(f"{name}.downsample.0", channels, 1, stride)
    # Backward of a sum does not need its terms, and no ReLU follows.
    b.batch_norm(f"{name}.downsample.1", kept=False)


def _unit(
    b: Builder,
    conv: str,
    norm: str,
    channels: int,
    kernel: int,
    *,
    stride: int = 1,
    padding: int = 0,
    groups: int = 1,
) -> None:
    b.conv(conv, channels, kernel, stride, padding, groups=groups)
    b.batch_norm(norm)

"""ResNet (He et al. 2016), in the 1.5 form of torchvision and NVIDIA.

A bottleneck's 3x3 convolution has the stride. ResNeXt (Xie et al. 2017) has wider ones in groups:
32 of 4 channels each in a first stage of "32x4d". SE-ResNeXt (Hu et al. 2018) scales the channels.

For CIFAR there are the paper's own narrow ones (269,722 parameters in ResNet-20) and the common
ResNet-18 whose stem keeps the image's size (11,173,962).
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model
from dpsim.workload.layer_stack import Shape


def resnet(name: str, depths: tuple[int, int, int, int], *, basic: bool = False) -> Model:
    """Build ResNet with ``depths`` bottlenecks in its four stages, for 1,000 classes.

    (3, 4, 6, 3) is ResNet-50.

    With ``basic`` blocks of two 3x3 convolutions (2, 2, 2, 2) is ResNet-18, and (3, 4, 6, 3)
    ResNet-34.
    """
    b = Builder((3, 224, 224))
    stem(b)
    for stage, depth in enumerate(depths, start=1):
        for block in range(depth):
            # Widths double from stage to stage: 64, 128, 256, 512.
            (basic_block if basic else bottleneck)(
                b, f"layer{stage}.{block}", 32 << stage, _stride(stage, block)
            )
    _head(b, 1000)
    return b.build(name, "224x224 image")


def resnext(name: str, depths: tuple[int, int, int, int], *, squeeze: bool = False) -> Model:
    """Build ResNeXt "32x4d" with ``depths`` bottlenecks in its four stages, for 1,000 classes."""
    b = Builder((3, 224, 224))
    stem(b)
    for stage, depth in enumerate(depths, start=1):
        for block in range(depth):
            width = 32 << stage
            bottleneck(
                b,
                f"layer{stage}.{block}",
                width,
                _stride(stage, block),
                inner=2 * width,
                groups=32,
                squeeze=squeeze,
            )
    _head(b, 1000)
    return b.build(name, "224x224 image")


def resnet18_cifar() -> Model:
    """Build ResNet-18 for CIFAR-10: a 3x3 stem of stride 1, without a pool."""
    b = Builder((3, 32, 32))
    _unit(b, "conv1", "bn1", 64, 3, padding=1)
    b.activation("relu")
    for stage in range(1, 5):
        for block in range(2):
            basic_block(b, f"layer{stage}.{block}", 32 << stage, _stride(stage, block))
    _head(b, 10)
    return b.build("resnet18-cifar", "32x32 image")


def resnet_cifar(name: str, depth: int) -> Model:
    """Build the paper's ResNet for CIFAR-10 of 6 n + 2 = ``depth`` layers.

    It has 16, 32 and 64 channels, and shortcuts without parameters.
    """
    b = Builder((3, 32, 32))
    _unit(b, "conv1", "bn1", 16, 3, padding=1)
    b.activation("relu")
    for stage in range(1, 4):
        for block in range((depth - 2) // 6):
            basic_block(
                b, f"layer{stage}.{block}", 8 << stage, _stride(stage, block), projected=False
            )
    _head(b, 10)
    return b.build(name, "32x32 image")


def stem(b: Builder) -> None:
    """Add the stem before the first stage: a 7x7 convolution and a pool, each of stride 2."""
    _unit(b, "conv1", "bn1", 64, 7, stride=2, padding=3)
    b.activation("relu")
    b.pool("maxpool", 3, 2, 1)


def _stride(stage: int, block: int) -> int:
    return 2 if stage > 1 and block == 0 else 1


def _head(b: Builder, classes: int) -> None:
    b.adaptive_pool("avgpool", 1)
    b.flatten()
    b.linear("fc", classes)


def basic_block(b: Builder, name: str, width: int, stride: int, *, projected: bool = True) -> None:
    """Add two 3x3 convolutions beside a shortcut.

    The shortcut is ``projected`` to the new shape, or else strided and padded with zeros.
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
    inner: int | None = None,
    groups: int = 1,
    squeeze: bool = False,
    strided_first: bool = False,
) -> None:
    """Add 1x1, 3x3 and 1x1 convolutions, the last of 4 x ``width`` channels, beside a shortcut.

    The 3x3 convolution has ``inner`` channels (``width`` if left out) in ``groups``.
    ``strided_first``: the first convolution has the stride, as in the paper.
    """
    entering, inner = b.shape, inner or width
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
    # No ReLU follows that would keep the output, and a sum needs neither of its terms in backward.
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

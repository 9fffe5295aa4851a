"""Jasper 10x5 with dense residuals (Li et al. 2019): 332,632,349 parameters.

Ten blocks of five convolutions over time; each block adds the inputs of all blocks before it. A
sample is 16.7 seconds of LibriSpeech, to which batches are padded.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model
from dpsim.workload.layer_stack import Shape

_VALUES, _LETTERS = 64, 29
# Channels and kernel of every two blocks.
_BLOCKS = ((256, 11), (384, 13), (512, 17), (640, 21), (768, 25))


def jasper(name: str, frames: int) -> Model:
    """Build Jasper over ``frames`` of 10 ms."""
    b = Builder((_VALUES, frames))
    _unit(b, "first", 256, 11, stride=2)
    before: list[Shape] = [b.shape]
    for index, (channels, kernel) in enumerate(each for each in _BLOCKS for _ in range(2)):
        _block(b, f"blocks.{index}", channels, kernel, before)
        before.append(b.shape)
    _unit(b, "last.0", 896, 29, dilation=2)
    _unit(b, "last.1", 1024, 1)
    b.conv("decoder", _LETTERS, 1, bias=True)
    b.cross_entropy("loss")
    return b.build(name, f"{frames} frames of 10 ms")


def _block(b: Builder, name: str, channels: int, kernel: int, before: list[Shape]) -> None:
    """Add five units, and before the last ReLU projections of all previous blocks' inputs."""
    for unit in range(4):
        _unit(b, f"{name}.{unit}", channels, kernel)
    _normed(b, f"{name}.4", channels, kernel)
    leaving = b.shape
    for index, entering in enumerate(before):
        b.shape = entering
        _normed(b, f"{name}.residual{index}", channels, 1)
    b.shape = leaving
    b.add(f"{name}.add", terms=1 + len(before))
    _active(b, f"{name}.4")


def _unit(
    b: Builder, name: str, channels: int, kernel: int, stride: int = 1, dilation: int = 1
) -> None:
    _normed(b, name, channels, kernel, stride, dilation)
    _active(b, name)


def _normed(
    b: Builder, name: str, channels: int, kernel: int, stride: int = 1, dilation: int = 1
) -> None:
    padding = dilation * (kernel // 2)
    b.conv(f"{name}.conv", channels, kernel, stride, padding, dilation=dilation)
    b.batch_norm(f"{name}.bn")


def _active(b: Builder, name: str) -> None:
    b.activation(f"{name}.relu")
    b.activation(f"{name}.dropout", kept=True)

"""Common parts of detectors: frozen norms, a feature pyramid, heads over its levels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dpsim.workload.builder import Builder
from dpsim.workload.layer_stack import Shape
from dpsim.workload.models.resnet import stages, stem

_WIDTH = 256  # channels of all levels of a pyramid


class FrozenNorms(Builder):
    """A builder with constant batch norms, as in detectors, which have few images per GPU."""

    def batch_norm(self, name: str, *, kept: bool = True) -> None:
        """Add a scale and a shift per channel; backward needs no input."""
        self._memory(name, "elementwise", 2 * self.size, 2 * self.size)


def resnet50(b: Builder, block: Callable[..., None]) -> list[Shape]:
    """Add ResNet-50's stem and stages of ``block``; return the stages' output shapes."""
    stem(b)
    return stages(b, (3, 4, 6, 3), block)


def pyramid(b: Builder, outputs: Sequence[Shape]) -> list[Shape]:
    """Add a feature pyramid (Lin et al. 2017) over stages; return its levels, the finest first."""
    levels: list[Shape] = []
    coarser: Shape | None = None
    for index, stage in reversed(list(enumerate(outputs))):
        b.shape = stage
        b.conv(f"fpn.inner{index}", _WIDTH, 1, bias=True)
        if coarser is not None:
            b.shape = coarser
            b.upsample(f"fpn.upsample{index}", 2)
            b.add(f"fpn.add{index}")
        coarser = b.shape
        b.conv(f"fpn.layer{index}", _WIDTH, 3, padding=1, bias=True)
        levels.insert(0, b.shape)
    return levels


def coarser_levels(b: Builder, levels: list[Shape]) -> list[Shape]:
    """Add two coarser levels by convolutions of stride 2; return all levels."""
    b.shape = levels[-1]
    more: list[Shape] = []
    for level in (6, 7):
        b.conv(f"fpn.p{level}", _WIDTH, 3, 2, 1, bias=True)
        b.activation(f"fpn.relu{level}")
        more.append(b.shape)
    return levels + more


def over_levels(b: Builder, levels: Sequence[Shape], head: Callable[[str, bool], None]) -> None:
    """Add a ``head(level, tied)`` on all ``levels``; all but the first borrow its weights."""
    for index, level in enumerate(levels):
        b.shape = level
        head(f"level{index}", index > 0)

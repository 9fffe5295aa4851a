"""The units of the Inception family: convolution, batch norm and ReLU, and their combinations."""

from __future__ import annotations

from dpsim.workload.builder import Builder, Size
from dpsim.workload.layer_stack import Shape

# Padding by kernel that keeps an image's size.
_PADDING: dict[Size, Size] = {
    1: 0,
    3: 1,
    5: 2,
    (1, 3): (0, 1),
    (3, 1): (1, 0),
    (1, 7): (0, 3),
    (7, 1): (3, 0),
}


class Units:
    """Units on one builder, ``b``."""

    def __init__(self, shape: Shape) -> None:
        self.b = Builder(shape)

    def unit(
        self, name: str, channels: int, kernel: Size, stride: int = 1, padding: Size = 0
    ) -> None:
        """Add a convolution, batch norm, ReLU."""
        self.b.conv(f"{name}.conv", channels, kernel, stride, padding)
        self.b.batch_norm(f"{name}.bn")
        # In place, as in torchvision.
        self.b.activation(f"{name}.relu")

    def chain(self, name: str, *units: tuple[int, Size]) -> None:
        """Add units of (channels, kernel), padded to keep the image's size."""
        for index, (channels, kernel) in enumerate(units, start=1):
            self.unit(f"{name}_{index}", channels, kernel, padding=_PADDING[kernel])

    def pooled(self, name: str, channels: int) -> None:
        """Add a 3x3 average pool, then a 1x1 unit."""
        self.b.pool(f"{name}.avg_pool", 3, 1, 1)
        self.unit(f"{name}.branch_pool", channels, 1)

    def shrunk(self, name: str, last: int, *units: tuple[int, Size]) -> None:
        """Add a chain, then a 3x3 unit of stride 2 with ``last`` channels."""
        self.chain(name, *units)
        self.unit(f"{name}_{len(units) + 1}", last, 3, 2)

    def forked(self, name: str, width: int, *units: tuple[int, Size]) -> None:
        """Add a chain that ends in parallel 1x3 and 3x1 units, each of ``width`` channels."""
        self.chain(name, *units)
        self.b.concatenate(
            f"{name}.cat",
            lambda: self.unit(f"{name}_{len(units) + 1}a", width, (1, 3), padding=(0, 1)),
            lambda: self.unit(f"{name}_{len(units) + 1}b", width, (3, 1), padding=(1, 0)),
        )

    def head(self, classes: int) -> None:
        """Add a global average pool, dropout, and the classifier."""
        self.b.global_pool("avgpool")
        self.b.activation("dropout", kept=True)
        self.b.flatten()
        self.b.linear("fc", classes)

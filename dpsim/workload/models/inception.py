"""Inception-v3 (Szegedy et al. 2016) as in torchvision, without the auxiliary head.

23,834,568 parameters (27,161,264 with the auxiliary head) and 5.71 G multiply-adds.
"""

from __future__ import annotations

from dpsim.workload.layer import Model
from dpsim.workload.models.conv_units import Units


def inception_v3(name: str) -> Model:
    """Build Inception-v3 for 1,000 classes, 299x299 images."""
    net = _Inception((3, 299, 299))
    net.stem()
    for index, pooled in enumerate((32, 64, 64)):
        net.block_a(f"Mixed_5{'bcd'[index]}", pooled)
    net.block_b("Mixed_6a")
    for index, width in enumerate((128, 160, 160, 192)):
        net.block_c(f"Mixed_6{'bcde'[index]}", width)
    net.block_d("Mixed_7a")
    for index in range(2):
        net.block_e(f"Mixed_7{'bc'[index]}")
    net.head(1000)
    return net.b.build(name, "299x299 image")


class _Inception(Units):
    """The blocks of the paper's figures 5 to 7 and its reductions."""

    def stem(self) -> None:
        self.unit("Conv2d_1a_3x3", 32, 3, 2)
        self.unit("Conv2d_2a_3x3", 32, 3)
        self.unit("Conv2d_2b_3x3", 64, 3, padding=1)
        self.b.pool("maxpool1", 3, 2)
        self.unit("Conv2d_3b_1x1", 80, 1)
        self.unit("Conv2d_4a_3x3", 192, 3)
        self.b.pool("maxpool2", 3, 2)

    def block_a(self, name: str, pooled: int) -> None:
        self.b.concatenate(
            f"{name}.cat",
            lambda: self.chain(f"{name}.branch1x1", (64, 1)),
            lambda: self.chain(f"{name}.branch5x5", (48, 1), (64, 5)),
            lambda: self.chain(f"{name}.branch3x3dbl", (64, 1), (96, 3), (96, 3)),
            lambda: self.pooled(name, pooled),
        )

    def block_b(self, name: str) -> None:
        self.b.concatenate(
            f"{name}.cat",
            lambda: self.shrunk(f"{name}.branch3x3", 384),
            lambda: self.shrunk(f"{name}.branch3x3dbl", 96, (64, 1), (96, 3)),
            lambda: self.b.pool(f"{name}.max_pool", 3, 2),
        )

    def block_c(self, name: str, width: int) -> None:
        self.b.concatenate(
            f"{name}.cat",
            lambda: self.chain(f"{name}.branch1x1", (192, 1)),
            lambda: self.chain(f"{name}.branch7x7", (width, 1), (width, (1, 7)), (192, (7, 1))),
            lambda: self.chain(
                f"{name}.branch7x7dbl",
                (width, 1),
                (width, (7, 1)),
                (width, (1, 7)),
                (width, (7, 1)),
                (192, (1, 7)),
            ),
            lambda: self.pooled(name, 192),
        )

    def block_d(self, name: str) -> None:
        self.b.concatenate(
            f"{name}.cat",
            lambda: self.shrunk(f"{name}.branch3x3", 320, (192, 1)),
            lambda: self.shrunk(f"{name}.branch7x7x3", 192, (192, 1), (192, (1, 7)), (192, (7, 1))),
            lambda: self.b.pool(f"{name}.max_pool", 3, 2),
        )

    def block_e(self, name: str) -> None:
        self.b.concatenate(
            f"{name}.cat",
            lambda: self.chain(f"{name}.branch1x1", (320, 1)),
            lambda: self.forked(f"{name}.branch3x3", 384, (384, 1)),
            lambda: self.forked(f"{name}.branch3x3dbl", 384, (448, 1), (384, 3)),
            lambda: self.pooled(name, 192),
        )

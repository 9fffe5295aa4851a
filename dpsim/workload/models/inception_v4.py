"""Inception-v4 (Szegedy et al. 2017), as in timm: 42,679,816 parameters, 12.3 G multiply-adds."""

from __future__ import annotations

from dpsim.workload.layer import Model
from dpsim.workload.models.conv_units import Units


def inception_v4(name: str) -> Model:
    """Build Inception-v4 for 1,000 classes, 299x299 images."""
    net = _InceptionV4((3, 299, 299))
    net.stem()
    for index in range(4):
        net.block_a(f"inception_a{index}")
    net.reduction_a("reduction_a")
    for index in range(7):
        net.block_b(f"inception_b{index}")
    net.reduction_b("reduction_b")
    for index in range(3):
        net.block_c(f"inception_c{index}")
    net.head(1000)
    return net.b.build(name, "299x299 image")


class _InceptionV4(Units):
    """The blocks of the paper's figures 3 to 9."""

    def stem(self) -> None:
        self.unit("conv0", 32, 3, 2)
        self.unit("conv1", 32, 3)
        self.unit("conv2", 64, 3, padding=1)
        self.b.concatenate(
            "mixed_3a.cat",
            lambda: self.b.pool("mixed_3a.maxpool", 3, 2),
            lambda: self.unit("mixed_3a.conv", 96, 3, 2),
        )
        self.b.concatenate(
            "mixed_4a.cat",
            lambda: self._narrowed("mixed_4a.branch0", (64, 1)),
            lambda: self._narrowed("mixed_4a.branch1", (64, 1), (64, (1, 7)), (64, (7, 1))),
        )
        self.b.concatenate(
            "mixed_5a.cat",
            lambda: self.unit("mixed_5a.conv", 192, 3, 2),
            lambda: self.b.pool("mixed_5a.maxpool", 3, 2),
        )

    def _narrowed(self, name: str, *units: tuple[int, int | tuple[int, int]]) -> None:
        """Add a chain, then a 3x3 unit without padding."""
        self.chain(name, *units)
        self.unit(f"{name}.last", 96, 3)

    def block_a(self, name: str) -> None:
        self.b.concatenate(
            f"{name}.cat",
            lambda: self.chain(f"{name}.branch0", (96, 1)),
            lambda: self.chain(f"{name}.branch1", (64, 1), (96, 3)),
            lambda: self.chain(f"{name}.branch2", (64, 1), (96, 3), (96, 3)),
            lambda: self.pooled(name, 96),
        )

    def reduction_a(self, name: str) -> None:
        self.b.concatenate(
            f"{name}.cat",
            lambda: self.shrunk(f"{name}.branch0", 384),
            lambda: self.shrunk(f"{name}.branch1", 256, (192, 1), (224, 3)),
            lambda: self.b.pool(f"{name}.maxpool", 3, 2),
        )

    def block_b(self, name: str) -> None:
        self.b.concatenate(
            f"{name}.cat",
            lambda: self.chain(f"{name}.branch0", (384, 1)),
            lambda: self.chain(f"{name}.branch1", (192, 1), (224, (1, 7)), (256, (7, 1))),
            lambda: self.chain(
                f"{name}.branch2",
                (192, 1),
                (192, (7, 1)),
                (224, (1, 7)),
                (224, (7, 1)),
                (256, (1, 7)),
            ),
            lambda: self.pooled(name, 128),
        )

    def reduction_b(self, name: str) -> None:
        self.b.concatenate(
            f"{name}.cat",
            lambda: self.shrunk(f"{name}.branch0", 192, (192, 1)),
            lambda: self.shrunk(f"{name}.branch1", 320, (256, 1), (256, (1, 7)), (320, (7, 1))),
            lambda: self.b.pool(f"{name}.maxpool", 3, 2),
        )

    def block_c(self, name: str) -> None:
        self.b.concatenate(
            f"{name}.cat",
            lambda: self.chain(f"{name}.branch0", (256, 1)),
            lambda: self.forked(f"{name}.branch1", 256, (384, 1)),
            lambda: self.forked(f"{name}.branch2", 256, (384, 1), (448, (3, 1)), (512, (1, 3))),
            lambda: self.pooled(name, 256),
        )

"""ResNet, VGG and the vision transformer in torch, beside the models of the catalogue."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from validate.twins.transformers import attend, split_heads

_CLASSES = 1000


def _unit(in_channels: int, out_channels: int, kernel: int, stride: int = 1) -> list[nn.Module]:
    # Use no bias, since the batch norm after it removes any constant.
    conv = nn.Conv2d(in_channels, out_channels, kernel, stride, kernel // 2, bias=False)
    return [conv, nn.BatchNorm2d(out_channels)]


class Residual(nn.Module):
    """A bottleneck of 1x1, 3x3 and 1x1 convolutions, or two 3x3 ones, beside a shortcut."""

    def __init__(self, in_channels: int, width: int, stride: int, *, basic: bool) -> None:
        super().__init__()
        out_channels = width if basic else 4 * width
        if basic:
            parts = [*_unit(in_channels, width, 3, stride), nn.ReLU(inplace=True)]
            parts += _unit(width, width, 3)
        else:
            parts = [*_unit(in_channels, width, 1), nn.ReLU(inplace=True)]
            parts += [*_unit(width, width, 3, stride), nn.ReLU(inplace=True)]
            parts += _unit(width, out_channels, 1)
        self.inner = nn.Sequential(*parts)
        same = stride == 1 and in_channels == out_channels
        self.shortcut = (
            nn.Identity() if same else nn.Sequential(*_unit(in_channels, out_channels, 1, stride))
        )
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, channels, height, width)."""
        return self.relu(self.inner(x) + self.shortcut(x))


def resnet(depths: Sequence[int], *, basic: bool) -> nn.Module:
    """Return a ResNet with ``depths`` blocks in the four stages."""
    # The stem's output channels.
    in_channels = 64
    blocks = []
    for stage, depth in enumerate(depths):
        for block in range(depth):
            width = 64 << stage
            # The first block of each stage but the first halves the image; the stem already has.
            stride = 2 if stage and not block else 1
            blocks.append(Residual(in_channels, width, stride, basic=basic))
            in_channels = width if basic else 4 * width
    stem = [*_unit(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(in_channels, _CLASSES)]
    return nn.Sequential(*stem, nn.Sequential(*blocks), *head)


def vgg(depths: Sequence[int]) -> nn.Module:
    """Return a VGG with ``depths`` 3x3 convolutions in the five stages, and three linear layers."""
    parts: list[nn.Module] = []
    in_channels = 3
    for channels, depth in zip((64, 128, 256, 512, 512), depths, strict=True):
        for _ in range(depth):
            parts += [nn.Conv2d(in_channels, channels, 3, padding=1), nn.ReLU(inplace=True)]
            in_channels = channels
        parts.append(nn.MaxPool2d(2, 2))
    parts.append(nn.Flatten())
    for features in (512 * 7 * 7, 4096):
        parts += [nn.Linear(features, 4096), nn.ReLU(inplace=True), nn.Dropout()]
    return nn.Sequential(*parts, nn.Linear(4096, _CLASSES))


class Encoder(nn.Module):
    """A block of the vision transformer: norms before attention and perceptron."""

    def __init__(self, width: int, heads: int, inner: int, *, fused: bool) -> None:
        super().__init__()
        self.heads = heads
        self.fused = fused
        self.ln_1 = nn.LayerNorm(width)
        self.in_proj = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))

    def forward(self, x: Tensor) -> Tensor:
        """Return a tensor of the same shape, (batch, tokens, width)."""
        # Queries, keys and values are one product, as wide as all three.
        heads = (split_heads(part, self.heads) for part in self.in_proj(self.ln_1(x)).chunk(3, -1))
        x = x + self.out_proj(attend(*heads, fused=self.fused, causal=False))
        return x + self.mlp(self.ln_2(x))


class Vit(nn.Module):
    """Maps images to scores of their classes, by the class token."""

    def __init__(
        self,
        blocks: int,
        width: int,
        heads: int,
        *,
        patch: int,
        image: int,
        inner: int | None,
        classes: int,
        channels: int,
        fused: bool,
    ) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, width, patch, patch)
        self.token = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(torch.zeros(1, (image // patch) ** 2 + 1, width))
        # The default, four times the width, may be left out in the catalogue.
        made = (Encoder(width, heads, inner or 4 * width, fused=fused) for _ in range(blocks))
        self.blocks = nn.Sequential(*made)
        self.ln = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes)

    def forward(self, images: Tensor) -> Tensor:
        """Return the scores, (batch, classes)."""
        patches = self.patches(images).flatten(2).transpose(1, 2)
        # Prepend the class token, the same for each image, whose output is classified.
        tokens = self.token.expand(len(images), -1, -1)
        x = torch.cat([tokens, patches], dim=1) + self.positions
        return self.head(self.ln(self.blocks(x)[:, 0]))

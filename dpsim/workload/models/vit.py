"""Vision transformers (Dosovitskiy et al. 2021) as in torchvision: 86,567,656 in ViT-B/16."""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model


def vit(
    name: str,
    blocks: int,
    width: int,
    heads: int,
    *,
    patch: int = 16,
    image: int = 224,
    inner: int | None = None,
    classes: int = 1000,
    channels: int = 3,
    fused: bool = True,
) -> Model:
    """Build an encoder over an image's patches and a class token, which is classified."""
    b = Builder((channels, image, image))
    # First: torch lists a module's own parameters before its children's.
    b.parameter("class_token", width)
    b.conv("conv_proj", width, patch, patch, bias=True)
    tokens = b.shape[1] * b.shape[2] + 1
    b.shape = (tokens, width)
    b.parameter("pos_embedding", tokens * width)
    for block in range(blocks):
        _block(b, f"layers.{block}", heads, inner or 4 * width, fused)
    b.layer_norm("ln")
    b.shape = (1, width)
    b.linear("head", classes)
    return b.build(name, f"{image}x{image} image")


def _block(b: Builder, name: str, heads: int, inner: int, fused: bool) -> None:
    tokens, width = b.shape
    b.layer_norm(f"{name}.ln_1")
    b.linear(f"{name}.attention.in_proj", 3 * width)
    b.shape = (tokens, width)
    (b.fused_attention if fused else b.attention)(f"{name}.attention", heads)
    b.linear(f"{name}.attention.out_proj", width, kept=False)
    b.add(f"{name}.add1", kept=True)
    b.layer_norm(f"{name}.ln_2")
    b.linear(f"{name}.mlp.0", inner)
    b.activation(f"{name}.mlp.gelu", kept=True)
    b.linear(f"{name}.mlp.3", width, kept=False)
    b.add(f"{name}.add2", kept=True)

"""The U-Net of Stable Diffusion 2 (Rombach et al. 2022): 865,910,724 parameters.

It is trained on 64x64 latents of 512x512 images, with the text as 77 vectors of 1,024. The encoders
of images and text are frozen, and their outputs are computed before training.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model
from dpsim.workload.layer_stack import Shape

_CHANNELS = (320, 640, 1280, 1280)
_TIME = 1280  # the width of the step's embedding
_WORDS, _TEXT = 77, 1024
_HEAD = 64


def unet(name: str, *, fused: bool = True) -> Model:
    """Build the U-Net of v2 for latents of 4x64x64."""
    b = Builder((320,))
    # The embedding of the diffusion step, which each residual block projects.
    b.linear("time_embedding.linear_1", _TIME)
    b.activation("time_embedding.act", kept=True)
    b.linear("time_embedding.linear_2", _TIME)
    b.shape = (4, 64, 64)
    b.conv("conv_in", _CHANNELS[0], 3, padding=1, bias=True)
    unet = _Unet(b, fused)
    unet.down()
    unet.middle()
    unet.up()
    b.group_norm("conv_norm_out")
    b.activation("conv_act", kept=True)
    b.conv("conv_out", 4, 3, padding=1, bias=True)
    return b.build(name, "64x64 latent of a 512x512 image")


class _Unet:
    """The downward and upward paths."""

    def __init__(self, b: Builder, fused: bool) -> None:
        self._b = b
        self._fused = fused
        self._skips: list[Shape] = [b.shape]

    def down(self) -> None:
        """Add two residual blocks per level, with transformers on all levels except the last."""
        for level, channels in enumerate(_CHANNELS):
            for block in range(2):
                self._pair(f"down_blocks.{level}", block, channels, attends=level < 3)
                self._skips.append(self._b.shape)
            if level < 3:
                self._b.conv(f"down_blocks.{level}.downsample", channels, 3, 2, 1, bias=True)
                self._skips.append(self._b.shape)

    def middle(self) -> None:
        """Add a transformer between two residual blocks."""
        self._pair("mid_block", 0, _CHANNELS[-1], attends=True)
        self._residual("mid_block.resnets.1", _CHANNELS[-1])

    def up(self) -> None:
        """Add three residual blocks per level, each with a skip connection as input."""
        for level, channels in enumerate(reversed(_CHANNELS)):
            for block in range(3):
                self._join(f"up_blocks.{level}.cat.{block}")
                self._pair(f"up_blocks.{level}", block, channels, attends=level > 0)
            if level < 3:
                self._b.upsample(f"up_blocks.{level}.upsample", 2)
                self._b.conv(f"up_blocks.{level}.upsample.conv", channels, 3, padding=1, bias=True)

    def _join(self, name: str) -> None:
        b, joined = self._b, self._skips.pop()
        b.shape = (b.shape[0] + joined[0], *b.shape[1:])
        b.activation(name, kept=True)

    def _pair(self, name: str, block: int, channels: int, *, attends: bool) -> None:
        self._residual(f"{name}.resnets.{block}", channels)
        if attends:
            self._transformer(f"{name}.attentions.{block}", channels)

    def _residual(self, name: str, channels: int) -> None:
        """Add norm, SiLU and convolution twice, with the step added in between, and a shortcut."""
        b, entering = self._b, self._b.shape
        b.group_norm(f"{name}.norm1")
        b.activation(f"{name}.silu1", kept=True)
        b.conv(f"{name}.conv1", channels, 3, padding=1, bias=True)
        inner = b.shape
        b.shape = (_TIME,)
        b.linear(f"{name}.time_emb_proj", channels)
        b.shape = inner
        b.add(f"{name}.time", kept=True)
        b.group_norm(f"{name}.norm2")
        b.activation(f"{name}.silu2", kept=True)
        b.conv(f"{name}.conv2", channels, 3, padding=1, bias=True)
        if entering[0] != channels:
            b.shape = entering
            b.conv(f"{name}.conv_shortcut", channels, 1, bias=True)
        b.add(f"{name}.add", kept=True)

    def _transformer(self, name: str, channels: int) -> None:
        """Add self-attention over pixels, cross-attention to the text, and a gated feed-forward."""
        b, image = self._b, self._b.shape
        b.group_norm(f"{name}.norm")
        b.shape = (image[1] * image[2], channels)
        b.linear(f"{name}.proj_in", channels)
        block = f"{name}.transformer_blocks.0"
        self._attention(f"{block}.attn1", f"{block}.norm1")
        self._attention(f"{block}.attn2", f"{block}.norm2", text=True)
        b.layer_norm(f"{block}.norm3")
        b.linear(f"{block}.ff.proj", 8 * channels)
        b.shape = (b.shape[0], 4 * channels)
        # GELU of one half times the other.
        b.add(f"{block}.ff.geglu", kept=True)
        b.linear(f"{block}.ff.out", channels, kept=False)
        b.add(f"{block}.ff.add", kept=True)
        b.linear(f"{name}.proj_out", channels, kept=False)
        b.shape = image
        b.add(f"{name}.add", kept=True)

    def _attention(self, name: str, norm: str, *, text: bool = False) -> None:
        b = self._b
        b.layer_norm(norm)
        tokens, width = b.shape
        b.linear(f"{name}.to_q", width, bias=False)
        for part in ("to_k", "to_v"):
            b.shape = (_WORDS, _TEXT) if text else (tokens, width)
            b.linear(f"{name}.{part}", width, bias=False)
        b.shape = (tokens, width)
        attention = b.fused_attention if self._fused else b.attention
        attention(name, width // _HEAD, keys=_WORDS if text else None)
        b.linear(f"{name}.to_out", width, kept=False)
        b.add(f"{name}.add", kept=True)

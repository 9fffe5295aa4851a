"""EfficientNet (Tan and Le 2019): inverted bottlenecks of depthwise convolutions, scaled channels.

B0 has 5,288,548 parameters on 224x224 images, B4 19,341,616 on 380x380. NVIDIA's wide SE models
squeeze to a quarter of the widened channels instead of the block's input channels.
"""

from __future__ import annotations

from math import ceil

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model

# For each stage: expansion, kernel, stride, channels, blocks.
_STAGES = (
    (1, 3, 1, 16, 1),
    (6, 3, 2, 24, 2),
    (6, 5, 2, 40, 2),
    (6, 3, 2, 80, 3),
    (6, 5, 1, 112, 3),
    (6, 5, 2, 192, 4),
    (6, 3, 1, 320, 1),
)


def efficientnet(
    name: str, image: int, wider: float = 1.0, deeper: float = 1.0, *, wide_squeeze: bool = False
) -> Model:
    """Build EfficientNet with B0's channels times ``wider`` and blocks times ``deeper``."""
    b = Builder((3, image, image))
    _unit(b, "features.stem", _rounded_to_eight(32 * wider), 3, 2)
    for stage, (widening, kernel, stride, channels, blocks) in enumerate(_STAGES, start=1):
        for block in range(ceil(blocks * deeper)):
            entering = b.shape
            widened = entering[0] * widening
            squeezed = (widened if wide_squeeze else entering[0]) // 4
            where = f"features.{stage}.{block}"
            if widening > 1:
                _unit(b, f"{where}.expand", widened, 1)
            _unit(b, f"{where}.depthwise", widened, kernel, stride if block == 0 else 1, widened)
            b.squeeze_excite(f"{where}.se", squeezed)
            b.conv(f"{where}.project.conv", _rounded_to_eight(channels * wider), 1)
            b.batch_norm(f"{where}.project.bn")
            if b.shape == entering:
                b.add(f"{where}.add")
    _unit(b, "features.last", 4 * b.shape[0], 1)
    b.global_pool("avgpool")
    b.flatten()
    b.activation("dropout", kept=True)
    b.linear("classifier", 1000)
    return b.build(name, f"{image}x{image} image")


def _unit(
    b: Builder, name: str, channels: int, kernel: int, stride: int = 1, groups: int = 1
) -> None:
    """Add a convolution, batch norm and SiLU."""
    b.conv(f"{name}.conv", channels, kernel, stride, kernel // 2, groups=groups)
    b.batch_norm(f"{name}.bn")
    b.activation(f"{name}.silu", kept=True)


def _rounded_to_eight(channels: float) -> int:
    """Return the nearest multiple of eight, or the next if that is more than a tenth below."""
    rounded = max(8, int(channels + 4) // 8 * 8)
    return rounded if rounded >= 0.9 * channels else rounded + 8

"""Cast: elements are sent as fp16 or bf16, 2 bytes each, and are summed in that format.

Rounding to nearest even: an element within the format's normal range is off by at most 2**-11
(fp16) or 2**-8 (bf16) of itself. In fp16, elements beyond 65504 become infinite, and no error is
finer than 2**-25. Encoding reads 4 and writes 2 bytes an element, decoding the reverse. Source:
torch's DDP communication hooks fp16_compress_hook and bf16_compress_hook.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpsim.strategy.compression.codec import FLOAT, Encoded, Floats, LossyCodec

_HALF = 2  # bytes


class CastConfig(LossyCodec):
    """Elements are sent in half precision."""

    sums_in_flight: ClassVar[bool] = True
    takes_more_steps: ClassVar[bool] = False
    also_called: ClassVar[tuple[str, ...]] = ("fp16", "bf16", "half")

    kind: Literal["cast"] = Field(description="Elements are sent and summed in half precision.")
    format: Literal["fp16", "bf16"] = Field(
        default="fp16", description="fp16 has more precision, bf16 has float32's range."
    )

    def wire_bytes(self, elements: int) -> int:
        """Return 2 bytes per element."""
        return _HALF * elements

    def encode_traffic(self, elements: int) -> float:
        """Return the bytes: one pass in, half a pass out."""
        return (FLOAT + _HALF) * elements + self.residual_traffic(elements)

    def decode_traffic(self, elements: int, payloads: int = 1) -> float:
        """Return the bytes: half a pass in, one pass out."""
        return float((FLOAT + _HALF) * elements)

    def encode(
        self, vector: Floats, generator: np.random.Generator, previous: Encoded | None = None
    ) -> Encoded:
        """Return one part: float16, or the upper halves of float32 as uint16."""
        return Encoded((self._narrow(vector),))

    def decode(self, encoded: Encoded, elements: int) -> Floats:
        """Return the elements as float32, exactly."""
        return self._widen(encoded.parts[0])

    def add(self, first: Encoded, second: Encoded) -> Encoded:
        """Return the sum rounded to the format, as the network's reduction does."""
        total = self._widen(first.parts[0]) + self._widen(second.parts[0])
        return Encoded((self._narrow(total),))

    def _narrow(self, vector: Floats) -> NDArray[np.float16] | NDArray[np.uint16]:
        if self.format == "fp16":
            # Beyond 65504 elements become infinite, as on a GPU: not an error here.
            with np.errstate(over="ignore"):
                return vector.astype(np.float16)
        return _bf16(vector)

    def _widen(self, narrow: NDArray[np.float16] | NDArray[np.uint16]) -> Floats:
        if self.format == "fp16":
            return narrow.astype(np.float32)
        return (narrow.astype(np.uint32) << 16).view(np.float32)


def _bf16(vector: Floats) -> NDArray[np.uint16]:
    """Return the upper halves, rounded to nearest even; NaN stays NaN."""
    # Adding half of the cut-off part, less one, plus the lowest kept bit rounds ties to even. In 64
    # bits, since the carry may overflow 32. The carry of a NaN could turn it into infinity or zero.
    bits = np.ascontiguousarray(vector, dtype=np.float32).view(np.uint32).astype(np.uint64)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(vector), 0x7FC0, rounded).astype(np.uint16)

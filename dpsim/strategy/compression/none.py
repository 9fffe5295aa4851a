"""No compression: payloads are sent unchanged, 4 bytes per element, and take no time to encode."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from dpsim.strategy.compression.codec import FLOAT, Codec, Encoded, Floats


class NoCompressionConfig(Codec):
    """Payloads are sent unchanged."""

    sums_in_flight: ClassVar[bool] = True
    exact: ClassVar[bool] = True
    takes_more_steps: ClassVar[bool] = False

    kind: Literal["none"] = Field(description="Gradients are sent uncompressed.")

    def wire_bytes(self, elements: int) -> int:
        """Return 4 bytes per element."""
        return FLOAT * elements

    def encode_traffic(self, elements: int) -> float:
        """Return 0: payloads are sent as they are."""
        return 0.0

    def decode_traffic(self, elements: int, payloads: int = 1) -> float:
        """Return 0: payloads are sent as they are."""
        return 0.0

    def encode(
        self, vector: Floats, generator: np.random.Generator, previous: Encoded | None = None
    ) -> Encoded:
        """Return the vector itself."""
        return Encoded((vector,))

    def decode(self, encoded: Encoded, elements: int) -> Floats:
        """Return the vector itself."""
        values: Floats = encoded.parts[0]
        return values

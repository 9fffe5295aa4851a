"""Threshold: elements of magnitude above a bound are sent with their indices.

Their number depends on the data. The bound is a multiple of the vector's root mean square, or an
absolute number. An element that is not sent is off by at most the bound. A sent element takes 4
bytes for its place and 4 for its value. The predicted size is an expectation: a fraction erfc(bound
/ sqrt 2) of normal elements with mean 0 exceeds a bound in units of their root mean square.
Gradients have heavier tails, a few per cent more or fewer; ``density`` replaces the expectation by
a measured fraction, and an absolute bound needs one. Payloads are gathered. Encoding reads once for
the root mean square and once to collect. Source: Strom, "Scalable distributed DNN training using
commodity GPU cloud computing", Interspeech 2015 (who sends signs only); values and bounds: Sahu et
al., "Rethinking gradient sparsification as total error minimization", NeurIPS 2021; Merrill and
Garland, "Single-pass parallel prefix scan with decoupled look-back", 2016.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from dpsim.strategy.compression.codec import FLOAT, Encoded, Floats
from dpsim.strategy.compression.top_k import SparseCodec


class ThresholdConfig(SparseCodec):
    """Large elements are sent with their indices."""

    kind: Literal["threshold"] = Field(
        description="Elements above a bound are sent with their indices; gathered."
    )
    bound: Annotated[float, Field(ge=0)] = Field(
        default=2.5758, description="Magnitude above which an element is sent."
    )
    unit: Literal["rms", "absolute"] = Field(
        default="rms",
        description="Unit of the bound: the vector's root mean square, or an absolute number.",
    )
    density: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="Expected fraction of sent elements; if left out, for a normal distribution.",
    )

    @model_validator(mode="after")
    def _check_density(self) -> ThresholdConfig:
        if self.unit == "absolute" and self.density is None:
            raise ValueError(
                "density must be given with an absolute bound, since how many elements exceed it "
                "depends on the data"
            )
        return self

    def count(self, elements: int) -> int:
        """Return the expected number of elements sent; it is exact for other codecs."""
        # P(|x| > bound) of a normal variable in units of its standard deviation.
        density = math.erfc(self.bound / math.sqrt(2)) if self.density is None else self.density
        return round(density * elements)

    def encode_traffic(self, elements: int) -> float:
        """Return the bytes: one pass in to collect, the payload out.

        The root mean square takes another pass, and with feedback 3 more form the sum.
        """
        passes = 1 + (self.unit == "rms") + (3 if self.error_feedback else 0)
        return float(passes * FLOAT * elements + self.wire_bytes(elements))

    def encode(
        self, vector: Floats, generator: np.random.Generator, previous: Encoded | None = None
    ) -> Encoded:
        """Return two parts: uint32 places in ascending order, float32 values."""
        unit = 1.0
        if self.unit == "rms":
            # In float64: squares of small gradients underflow float32.
            unit = math.sqrt(np.mean(np.square(vector, dtype=np.float64)))
        places = np.flatnonzero(np.abs(vector) > self.bound * unit)
        return Encoded((places.astype(np.uint32), vector[places]))

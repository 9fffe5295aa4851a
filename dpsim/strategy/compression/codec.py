"""The base of all codecs: encoded size, cost, and the encoding itself.

Time is a memory-traffic model: the bytes that the codec's kernels read and write in device memory
over its bandwidth, or its FLOP over the peak rate if that is longer (only low-rank codecs come
close). A pass is one read or write of all elements as float32, 4 bytes each; each codec states its
passes. Kernel launches are not included, and the caller gives the bandwidth. Codecs do few
operations per byte, so they are memory-bound, and many passes can cost as much as compression saves
on the wire: Agarwal et al., "On the utility of gradient compression in distributed training
systems", MLSys 2022. The passes are counted from the algorithms, not measured.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpsim.base.kinds import KindConfig

Floats = NDArray[np.float32]

FLOAT = 4  # bytes of a float32 element, and of an index or a scale
SECTOR = 32  # bytes: smallest memory transaction of a GPU, the cost of one scattered element


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A payload as it is sent.

    ``parts`` are sent; ``known`` is drawn by every worker from common randomness and not sent.
    """

    parts: tuple[NDArray[Any], ...]
    known: tuple[NDArray[Any], ...] = ()

    def to_bytes(self) -> bytes:
        """Return the bytes on the wire."""
        return b"".join(part.tobytes() for part in self.parts)


@dataclass(frozen=True, slots=True, eq=False)
class DecodedMean:
    """The mean of all workers' vectors, as the workers decode it.

    ``mean``: the result on every worker. ``locals``: what each worker contributed to it, (workers,
    elements).
    """

    mean: Floats
    locals: Floats
    encoded: tuple[Encoded, ...]


class Codec(KindConfig):
    """A codec that encodes payloads before they are sent.

    Vectors are flat, float32, with at least one element.

    ``sums_in_flight``: encoded payloads add up, so an all-reduce carries them; otherwise they are
    gathered and each is decoded. ``common_randomness``: generators given to `encode` must be in the
    same state on every worker. ``exact``: payloads are not changed. ``chained``: a later payload
    depends on the complete mean of an earlier one. ``takes_more_steps``: training may take more
    steps than with uncompressed gradients.
    """

    sums_in_flight: ClassVar[bool]
    exact: ClassVar[bool] = False
    chained: ClassVar[bool] = False
    takes_more_steps: ClassVar[bool] = True
    common_randomness: ClassVar[bool] = False

    @property
    def feeds_back(self) -> bool:
        """Whether the encoding error is added to the next vector."""
        return False

    @abstractmethod
    def wire_bytes(self, elements: int) -> int:
        """Return the bytes that `encode` produces for that many float32 elements."""

    def stages(self, elements: int) -> tuple[int, ...]:
        """Return the bytes of each collective that carries the payload, one after the other.

        They add up to `wire_bytes`.
        """
        return (self.wire_bytes(elements),)

    @abstractmethod
    def encode_traffic(self, elements: int) -> float:
        """Return the bytes that encoding reads and writes in device memory."""

    @abstractmethod
    def decode_traffic(self, elements: int, payloads: int = 1) -> float:
        """Return the bytes that decoding reads and writes in device memory.

        It decodes one sum, or ``payloads`` gathered payloads into one mean.
        """

    def encode_flop(self, elements: int) -> float:
        """Return the FLOP of encoding, if they may take longer than memory traffic."""
        return 0.0

    def decode_flop(self, elements: int, payloads: int = 1) -> float:
        """Return the FLOP of decoding, if they may take longer than memory traffic."""
        return 0.0

    def encode_seconds(self, elements: int, *, memory_bandwidth: float, peak: float) -> float:
        """Return the seconds that encoding takes on a GPU.

        The GPU moves ``memory_bandwidth`` B/s and computes ``peak`` FLOP/s in float32.
        """
        moving = self.encode_traffic(elements) / memory_bandwidth
        computing = self.encode_flop(elements) / peak
        # A kernel reads while it computes: the longer of the two counts.
        return max(moving, computing)

    def decode_seconds(
        self, elements: int, *, memory_bandwidth: float, peak: float, payloads: int = 1
    ) -> float:
        """Return the seconds that decoding one sum, or ``payloads`` gathered payloads, takes."""
        moving = self.decode_traffic(elements, payloads) / memory_bandwidth
        computing = self.decode_flop(elements, payloads) / peak
        return max(moving, computing)

    @abstractmethod
    def encode(
        self, vector: Floats, generator: np.random.Generator, previous: Encoded | None = None
    ) -> Encoded:
        """Return the payload of ``vector``.

        ``previous`` is the last payload, for codecs that start from it.
        """

    @abstractmethod
    def decode(self, encoded: Encoded, elements: int) -> Floats:
        """Return the vector that a payload encodes."""

    def add(self, first: Encoded, second: Encoded) -> Encoded:
        """Return the sum of two payloads, as in an all-reduce; for codecs that sum in flight."""
        assert self.sums_in_flight, f"payloads of {self!r} do not add up"
        # Values at different places must not be added up silently.
        same = all(np.array_equal(a, b) for a, b in zip(first.known, second.known, strict=True))
        assert same, "workers must draw the same random values"
        parts = tuple(a + b for a, b in zip(first.parts, second.parts, strict=True))
        return Encoded(parts, first.known)

    def exchange(
        self,
        vectors: Floats,
        generators: Sequence[np.random.Generator],
        previous: Sequence[Encoded] | None = None,
    ) -> DecodedMean:
        """Return the mean of all workers' ``vectors``, (workers, elements), summed or gathered."""
        workers, elements = vectors.shape
        last: Sequence[Encoded | None] = previous or [None] * workers
        encoded = tuple(self.encode(*each) for each in zip(vectors, generators, last, strict=True))
        decoded = np.stack([self.decode(payload, elements) for payload in encoded])
        if not self.sums_in_flight:
            mean = decoded.mean(axis=0, dtype=np.float32)
            return DecodedMean(mean, decoded, encoded)
        # Only the sum is decoded, because an all-reduce knows nothing of the codec.
        total = encoded[0]
        for payload in encoded[1:]:
            total = self.add(total, payload)
        mean = self.decode(total, elements) / np.float32(workers)
        return DecodedMean(mean, decoded, encoded)


class LossyCodec(Codec):
    """A lossy codec, whose error may be fed back."""

    error_feedback: bool = Field(
        default=False,
        description="Error feedback: the encoding error is added to the next step's vector.",
    )

    @property
    def feeds_back(self) -> bool:
        """Whether the encoding error is added to the next vector."""
        return self.error_feedback

    def residual_traffic(self, elements: int) -> float:
        """Return the bytes that error feedback adds to a kernel that reads the vector once.

        The kernel reads the old residual and writes the new one.
        """
        return 2.0 * FLOAT * elements if self.error_feedback else 0.0


class QuantisingCodec(LossyCodec):
    """A codec that gives each element fewer bits.

    Payloads are gathered; encoding and decoding take one kernel each.
    """

    sums_in_flight: ClassVar[bool] = False

    def encode_traffic(self, elements: int) -> float:
        """Return the bytes: one pass in, the payload out."""
        return FLOAT * elements + self.wire_bytes(elements) + self.residual_traffic(elements)

    def decode_traffic(self, elements: int, payloads: int = 1) -> float:
        """Return the bytes: all payloads in, added up in registers, one pass out."""
        return float(payloads * self.wire_bytes(elements) + FLOAT * elements)

"""What a codec is: how many bytes a payload becomes, what that costs, and the encoding itself.

Time is a memory-traffic model: the bytes that the codec's kernels read and write in device memory
over its bandwidth, or its FLOP over the peak rate where that is more (only low-rank codecs come
near). A pass is one read or write of all elements as float32, 4 bytes each; each codec states its
passes. Kernel launches are not in it, and the bandwidth is what the caller says it is. Codecs do
few operations per byte, so memory binds them, and many passes can cost what compression saves on
the wire: Agarwal et al., "On the utility of gradient compression in distributed training systems",
MLSys 2022. The passes are counted from the algorithms, not measured.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpsim.base.config import Config

Floats = NDArray[np.float32]

FLOAT = 4  # bytes of a float32 element, and of an index or a scale
SECTOR = 32  # bytes that a GPU's memory moves at least, so that one scattered element costs as much


@dataclass(frozen=True, slots=True, eq=False)
class Encoded:
    """A payload as it travels.

    ``parts`` are sent; ``known`` is what every worker draws from common randomness and nobody
    sends.
    """

    parts: tuple[NDArray[Any], ...]
    known: tuple[NDArray[Any], ...] = ()

    def to_bytes(self) -> bytes:
        """What is on the wire."""
        return b"".join(part.tobytes() for part in self.parts)


@dataclass(frozen=True, slots=True, eq=False)
class DecodedMean:
    """The mean of all workers' vectors, as they decode it.

    ``mean``: what every worker holds afterwards. ``locals``: what of each worker's vector went into
    it, (workers, elements).
    """

    mean: Floats
    locals: Floats
    encoded: tuple[Encoded, ...]


class Codec(Config):
    """How payloads are rewritten before they travel.

    Vectors are flat, float32, of at least one element.

    ``sums_in_flight``: encoded payloads add up, so an all-reduce carries them; otherwise they are
    gathered and each is decoded. ``common_randomness``: generators given to `encode` must be in the
    same state on every worker. ``exact``: nothing is done to a payload. ``chained``: a
    later payload is made of the whole mean of an earlier one. ``takes_more_steps``:
    training may take more steps than with uncompressed gradients.
    """

    sums_in_flight: ClassVar[bool]
    exact: ClassVar[bool] = False
    chained: ClassVar[bool] = False
    takes_more_steps: ClassVar[bool] = True
    common_randomness: ClassVar[bool] = False

    @property
    def feeds_back(self) -> bool:
        """Whether what encoding lost is added to the next vector."""
        return False

    @abstractmethod
    def wire_bytes(self, elements: int) -> int:
        """Bytes that `encode` produces for that many float32 elements."""

    def stages(self, elements: int) -> tuple[int, ...]:
        """Bytes of each collective that carries the payload; one starts when the last has ended.

        They add up to `wire_bytes`.
        """
        return (self.wire_bytes(elements),)

    @abstractmethod
    def encode_traffic(self, elements: int) -> float:
        """Bytes that encoding reads and writes in device memory."""

    @abstractmethod
    def decode_traffic(self, elements: int, payloads: int = 1) -> float:
        """Bytes that decoding reads and writes in device memory.

        What is decoded is one sum, or ``payloads`` gathered ones into one mean.
        """

    def encode_flop(self, elements: int) -> float:
        """FLOP of encoding where they may matter beside memory."""
        return 0.0

    def decode_flop(self, elements: int, payloads: int = 1) -> float:
        """FLOP of decoding where they may matter beside memory."""
        return 0.0

    def encode_seconds(self, elements: int, *, memory_bandwidth: float, peak: float) -> float:
        """Seconds that encoding takes on a GPU.

        It moves ``memory_bandwidth`` B/s and computes ``peak`` FLOP/s in float32.
        """
        moving = self.encode_traffic(elements) / memory_bandwidth
        computing = self.encode_flop(elements) / peak
        # A kernel reads while it computes, the longer of the two counts.
        return max(moving, computing)

    def decode_seconds(
        self, elements: int, *, memory_bandwidth: float, peak: float, payloads: int = 1
    ) -> float:
        """The same for decoding one sum, or ``payloads`` gathered ones."""
        moving = self.decode_traffic(elements, payloads) / memory_bandwidth
        computing = self.decode_flop(elements, payloads) / peak
        return max(moving, computing)

    @abstractmethod
    def encode(
        self, vector: Floats, generator: np.random.Generator, previous: Encoded | None = None
    ) -> Encoded:
        """The payload of ``vector``.

        ``previous`` is the last payload, for codecs that start from it.
        """

    @abstractmethod
    def decode(self, encoded: Encoded, elements: int) -> Floats:
        """The vector that a payload stands for."""

    def add(self, first: Encoded, second: Encoded) -> Encoded:
        """The sum of two payloads, as an all-reduce forms it; for codecs that sum in flight."""
        assert self.sums_in_flight, f"payloads of {self!r} do not add up"
        # Values at places that differ would be added to one another without anybody noticing.
        same = all(np.array_equal(a, b) for a, b in zip(first.known, second.known, strict=True))
        assert same, "randomness was not common"
        parts = tuple(a + b for a, b in zip(first.parts, second.parts, strict=True))
        return Encoded(parts, first.known)

    def exchange(
        self,
        vectors: Floats,
        generators: Sequence[np.random.Generator],
        previous: Sequence[Encoded] | None = None,
    ) -> DecodedMean:
        """The mean of all workers' ``vectors``, (workers, elements), summed or gathered."""
        workers, elements = vectors.shape
        last: Sequence[Encoded | None] = previous or [None] * workers
        encoded = tuple(self.encode(*each) for each in zip(vectors, generators, last, strict=True))
        decoded = np.stack([self.decode(payload, elements) for payload in encoded])
        if not self.sums_in_flight:
            mean = decoded.mean(axis=0, dtype=np.float32)
            return DecodedMean(mean, decoded, encoded)
        # Payloads are added, and only their sum is decoded: an all-reduce knows no codec.
        total = encoded[0]
        for payload in encoded[1:]:
            total = self.add(total, payload)
        mean = self.decode(total, elements) / np.float32(workers)
        return DecodedMean(mean, decoded, encoded)


class LossyCodec(Codec):
    """A codec that loses something, which may be fed back."""

    error_feedback: bool = Field(
        default=False, description="What encoding lost is added to the next step's vector."
    )

    @property
    def feeds_back(self) -> bool:
        """Whether what encoding lost is added to the next vector."""
        return self.error_feedback

    def residual_traffic(self, elements: int) -> float:
        """Bytes that error feedback adds to a kernel that reads the vector once.

        It reads the old residual and writes the new one.
        """
        return 2.0 * FLOAT * elements if self.error_feedback else 0.0


class QuantisingCodec(LossyCodec):
    """A codec that gives each element fewer bits.

    Payloads are gathered, and one kernel each way does it all.
    """

    sums_in_flight: ClassVar[bool] = False

    def encode_traffic(self, elements: int) -> float:
        """One pass in, the payload out."""
        return FLOAT * elements + self.wire_bytes(elements) + self.residual_traffic(elements)

    def decode_traffic(self, elements: int, payloads: int = 1) -> float:
        """All payloads in, added up in registers, one pass out."""
        return float(payloads * self.wire_bytes(elements) + FLOAT * elements)

"""Compressed gradients with error feedback: dpsim's codecs, each by the collective that it needs.

Codecs that sum in flight use an all-reduce; for others each worker gathers all payloads and decodes
them. The error of encoding a worker's gradient is added to its next one. Codecs work on float32 in
host memory.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from pydantic import Field

from dpsim.strategy.compression import (
    Codec,
    CompressionConfig,
    Encoded,
    PowerSgdConfig,
    TopKConfig,
)
from validate.training.method import Method
from validate.training.worker import Worker

Floats = NDArray[np.float32]


class Compressed(Method):
    """Bulk-synchronous, gradients compressed on their way."""

    via_host_memory: ClassVar[bool] = True
    in_float32: ClassVar[bool] = True
    kind: ClassVar[str] = "compressed"
    codec: CompressionConfig = Field(
        default=TopKConfig(kind="top-k"), description="The codec, with its settings."
    )

    def run(self, worker: Worker) -> None:
        """Train; encoding, exchanging and decoding count as communication."""
        gradient = worker.replica.gradient
        peer = Peer(self.codec, worker, gradient.numel())
        for step in worker.steps():
            worker.compute_gradient(step)
            with worker.part("communication"):
                own = gradient.float().cpu().numpy()
                gradient.copy_(torch.from_numpy(peer.mean(own)))
            worker.update()


class Peer:
    """One worker's side of a `CompressedMean`, with its residual and random stream."""

    def __init__(self, codec: Codec, worker: Worker, elements: int) -> None:
        self.codec = codec
        self.rank = worker.rank
        self.workers = worker.workers
        self.group = worker.host_group
        self.residual = np.zeros(elements, dtype=np.float32)
        # The same streams as `CompressedMean`, so that a replay in one process draws the same
        # numbers.
        key = 0 if codec.common_randomness else worker.rank
        seed = np.random.SeedSequence(worker.training.seed, spawn_key=(key,))
        self._generator = np.random.Generator(np.random.Philox(seed))
        self._q: Floats | None = None  # PowerSGD's second factor of the last step

    def mean(self, vector: Floats) -> Floats:
        """Return the mean of all workers' vectors, as sent through the codec.

        The error of this worker's vector is kept as its residual.
        """
        corrected = vector + self.residual if self.codec.feeds_back else vector
        if isinstance(self.codec, PowerSgdConfig):
            mean, own = self._through_factors(corrected, self.codec)
        else:
            mean, own = self._through_codec(corrected)
        if self.codec.feeds_back:
            self.residual = corrected - own
        return mean

    def _through_codec(self, vector: Floats) -> tuple[Floats, Floats]:
        encoded = self.codec.encode(vector, self._generator)
        # The others receive this; the rest is this worker's residual.
        sent = self.codec.decode(encoded, len(vector))
        if self.codec.sums_in_flight:
            parts = tuple(self._sum(part) for part in encoded.parts)
            total = self.codec.decode(Encoded(parts, encoded.known), len(vector))
            return total / np.float32(self.workers), sent
        decoded = [self.codec.decode(each, len(vector)) for each in self._gather(encoded)]
        # In the order of ranks on every worker, so that all get the same bits.
        return np.stack(decoded).mean(axis=0, dtype=np.float32), sent

    def _through_factors(self, vector: Floats, codec: PowerSgdConfig) -> tuple[Floats, Floats]:
        """Average PowerSGD's P = M Q, then Q = M' P of the orthonormal mean P; return P Q' twice.

        The second all-reduce needs the first one's result. M is the vector as a matrix.
        """
        # Sent unchanged if too small for two factors to be smaller.
        if len(codec.stages(len(vector))) == 1:
            return self._mean_of(vector), vector
        rows, columns = codec.shape(len(vector))
        matrix = np.pad(vector, (0, rows * columns - len(vector))).reshape(rows, columns)
        if self._q is None:
            self._q = self._generator.standard_normal((columns, codec.rank), dtype=np.float32)
        # Every worker decomposes the same mean, and so has the same P without sending it.
        p = np.linalg.qr(self._mean_of(matrix @ self._q))[0]
        # The next step's power iteration starts from this Q.
        self._q = self._mean_of(matrix.T @ p)
        mean = codec.decode(Encoded((p, self._q)), len(vector))
        return mean, mean

    def _mean_of(self, values: Floats) -> Floats:
        return np.asarray(self._sum(values) / self.workers, dtype=np.float32)

    def _sum(self, part: NDArray[Any]) -> NDArray[Any]:
        """Return the sum over workers, in the part's own format; uint16 holds bfloat16."""
        total = torch.from_numpy(part.copy())
        if part.dtype == np.uint16:
            total = total.view(torch.bfloat16)
        dist.all_reduce(total, group=self.group)
        if part.dtype == np.uint16:
            total = total.view(torch.uint16)
        return np.asarray(total.numpy())

    def _gather(self, encoded: Encoded) -> list[Encoded]:
        """Return the payloads of all workers, whose lengths may differ."""
        everyone: list[Any] = [None] * self.workers
        dist.all_gather_object(everyone, encoded.parts, group=self.group)
        return [Encoded(parts) for parts in everyone]

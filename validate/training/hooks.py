"""Communication hooks of torch's DDP, called with a bucket whose gradients are ready."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from dpsim.strategy.compression import Codec
from validate.microbench.torch_codecs import TorchEncoded, decode, encode
from validate.training.worker import Worker


def by_hook(state, bucket):  # type: ignore[no-untyped-def]
    """Call the hook ``state``, one of those below; registered with torch.

    It has no annotations, since torch inspects them and rejects strings for its own types.
    """
    return state(bucket)


def arrived_at_once(bucket: Any) -> Any:
    """Return a completed future of the unchanged bucket: nothing is sent."""
    return _done(bucket.buffer())


def _done(mean: Tensor) -> Any:
    # A GPU's future tells torch's streams to wait for it; a CPU's takes no devices.
    devices = [mean.device] if mean.device.type == "cuda" else []
    done: Any = torch.futures.Future(devices=devices)
    done.set_result(mean)
    return done


class TimedAverage:
    """Averages buckets, and records when each began and ended."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._group = worker.world.group
        self._workers = worker.workers

    def __call__(self, bucket: Any) -> Any:
        """Return a future of the bucket's mean."""
        face = self._worker.world.face
        number = bucket.index()
        begin = face.mark()
        sums = bucket.buffer()
        # Before the sum, since torch's own hook also divides first.
        sums.div_(self._workers)
        work = dist.all_reduce(sums, group=self._group, async_op=True)

        def record_arrival(future: Any) -> Tensor:
            # torch calls this on a stream that has waited for the sum.
            self._worker.record_bucket(number, begin, face.mark())
            mean: Tensor = future.value()[0]
            return mean

        return work.get_future().then(record_arrival)


class CodecHook:
    """Sends each bucket through a codec of dpsim, on the device, with error feedback.

    Payloads that sum in flight are all-reduced; others are gathered, and every worker decodes all
    of them. PowerSGD's two payloads are two all-reduces, the second computed from the result of the
    first.
    """

    def __init__(self, codec: Codec, worker: Worker) -> None:
        self.codec = codec
        self._worker = worker
        self._group = worker.world.group
        self._workers = worker.workers
        self._lost: dict[Tensor, Tensor] = {}
        # Workers with the same random stream need not send the indices that they draw.
        key = 0 if codec.common_randomness else worker.rank
        device = worker.world.device
        self._generator = torch.Generator(device).manual_seed(worker.training.seed + key)

    def __call__(self, bucket: Any) -> Any:
        """Return a completed future of the mean, as sent through the codec."""
        face = self._worker.world.face
        gradient = bucket.buffer()
        begin = face.mark()
        vector = gradient.float()
        parameters = bucket.parameters()
        if self.codec.feeds_back:
            vector = vector + self._left_over(parameters)
        own, mean = self._mean_in_chain(vector) if self.codec.chained else self._at_once(vector)
        if self.codec.feeds_back:
            sizes = [parameter.numel() for parameter in parameters]
            self._lost.update(zip(parameters, (vector - own).split(sizes), strict=True))
        self._worker.record_bucket(bucket.index(), begin, face.mark())
        return _done(mean.to(gradient.dtype))

    def _left_over(self, parameters: Sequence[Tensor]) -> Tensor:
        """Return the accumulated encoding error of the parameters' gradients.

        Kept by parameter, not by bucket: torch rebuilds its buckets after the first step.
        """
        nothing = (torch.zeros(each.numel(), device=each.device) for each in parameters)
        lost = zip(parameters, nothing, strict=True)
        return torch.cat([self._lost.get(each, zeros) for each, zeros in lost])

    def _at_once(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Return this worker's vector as received, and the mean of all workers' vectors."""
        with self._worker.part("encode"):
            encoded = encode(self.codec, vector, self._generator)
            own = decode(self.codec, encoded, len(vector))
        return own, self._mean(encoded, len(vector))

    def _mean_in_chain(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """Return the same for a codec whose later parts depend on the mean of earlier ones.

        No worker's own vector is received, so its error is relative to the mean.
        """
        encoded = encode(self.codec, vector, self._generator, self._average)
        with self._worker.part("encode"):
            mean = decode(self.codec, encoded, len(vector))
        return mean, mean

    def _average(self, part: Tensor) -> Tensor:
        return self._sum(part) / self._workers

    def _mean(self, encoded: TorchEncoded, elements: int) -> Tensor:
        if self.codec.sums_in_flight:
            parts = tuple(self._sum(part) for part in encoded.parts)
            with self._worker.part("encode"):
                total = decode(self.codec, TorchEncoded(parts, encoded.known), elements)
                return total / self._workers
        everyone = zip(*(self._gather(part) for part in encoded.parts), strict=True)
        with self._worker.part("encode"):
            decoded = [
                decode(self.codec, TorchEncoded(parts, encoded.known), elements)
                for parts in everyone
            ]
            return torch.stack(decoded).mean(dim=0)

    def _sum(self, part: Tensor) -> Tensor:
        total = part.clone()
        dist.all_reduce(total, group=self._group)
        return total

    def _gather(self, part: Tensor) -> list[Tensor]:
        """Return all workers' ``part``; lengths go first, as a threshold's payloads differ."""
        lengths = self._all(torch.tensor([len(part)], device=part.device))
        counts = [int(length) for length in lengths]
        # torch gathers tensors of one size only.
        padded = part.new_zeros((max(counts), *part.shape[1:]))
        padded[: len(part)] = part
        everyone = zip(self._all(padded), counts, strict=True)
        return [theirs[:count] for theirs, count in everyone]

    def _all(self, own: Tensor) -> list[Tensor]:
        room = [torch.empty_like(own) for _ in range(self._workers)]
        dist.all_gather(room, own, group=self._group)
        return room

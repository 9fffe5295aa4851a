"""Communication hooks of torch's DDP: what is done with a bucket whose gradients are ready."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from dpsim.strategy.compression import Codec
from validate.microbench import TorchEncoded, decode, encode
from validate.training.worker import Worker


def by_hook(state, bucket):  # type: ignore[no-untyped-def]
    """What torch calls: ``state`` is one of the hooks below.

    Without annotations, since torch reads them, and takes no text for its own types.
    """
    return state(bucket)


def arrived_at_once(bucket: Any) -> Any:
    """A future, already done, of the bucket as it is: nothing is sent."""
    return _done(bucket.buffer())


def _done(mean: Tensor) -> Any:
    # A GPU's future tells torch's streams to wait for it. A processor's takes no devices.
    devices = [mean.device] if mean.device.type == "cuda" else []
    done: Any = torch.futures.Future(devices=devices)
    done.set_result(mean)
    return done


class TimedAverage:
    """The plain average, and when each bucket set out and came."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._group = worker.world.group
        self._workers = worker.workers

    def __call__(self, bucket: Any) -> Any:
        """A future of the bucket's mean."""
        face = self._worker.world.face
        number = bucket.index()
        begin = face.mark()
        sums = bucket.buffer()
        # Before the sum, as torch's own hook divides.
        sums.div_(self._workers)
        work = dist.all_reduce(sums, group=self._group, async_op=True)

        def arrived(future: Any) -> Tensor:
            # torch calls this on a stream that has waited for the sum.
            self._worker.carried(number, begin, face.mark())
            mean: Tensor = future.value()[0]
            return mean

        return work.get_future().then(arrived)


class CodecHook:
    """Each bucket through a codec of dpsim's, on the device, with error feedback.

    Payloads that add up are all-reduced; others are gathered, and every worker decodes all of them.
    PowerSGD's two payloads are two all-reduces, the second of what came out of the first.
    """

    def __init__(self, codec: Codec, worker: Worker) -> None:
        self.codec = codec
        self._worker = worker
        self._group = worker.world.group
        self._workers = worker.workers
        self._lost: dict[Tensor, Tensor] = {}
        # Workers who draw alike need not send which elements they have drawn.
        key = 0 if codec.common_randomness else worker.rank
        device = worker.world.device
        self._generator = torch.Generator(device).manual_seed(worker.training.seed + key)

    def __call__(self, bucket: Any) -> Any:
        """A future, already done, of the mean as it comes through the codec."""
        face = self._worker.world.face
        gradient = bucket.buffer()
        begin = face.mark()
        vector = gradient.float()
        parameters = bucket.parameters()
        if self.codec.feeds_back:
            vector = vector + self._left_over(parameters)
        own, mean = self._chained(vector) if self.codec.chained else self._at_once(vector)
        if self.codec.feeds_back:
            sizes = [parameter.numel() for parameter in parameters]
            self._lost.update(zip(parameters, (vector - own).split(sizes), strict=True))
        self._worker.carried(bucket.index(), begin, face.mark())
        return _done(mean.to(gradient.dtype))

    def _left_over(self, parameters: Sequence[Tensor]) -> Tensor:
        """What encoding has lost of their gradients so far.

        By parameter, not by bucket: torch cuts its buckets anew after the first step.
        """
        nothing = (torch.zeros(each.numel(), device=each.device) for each in parameters)
        lost = zip(parameters, nothing, strict=True)
        return torch.cat([self._lost.get(each, zeros) for each, zeros in lost])

    def _at_once(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """What of this worker's vector arrives, and the mean of all workers'."""
        with self._worker.part("encode"):
            encoded = encode(self.codec, vector, self._generator)
            own = decode(self.codec, encoded, len(vector))
        return own, self._mean(encoded, len(vector))

    def _chained(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """The same of a codec whose later parts are made of the mean of earlier ones.

        No worker's own vector arrives: what it loses is counted from the mean.
        """
        encoded = encode(self.codec, vector, self._generator, self._averaged)
        with self._worker.part("encode"):
            mean = decode(self.codec, encoded, len(vector))
        return mean, mean

    def _averaged(self, part: Tensor) -> Tensor:
        return self._summed(part) / self._workers

    def _mean(self, encoded: TorchEncoded, elements: int) -> Tensor:
        if self.codec.sums_in_flight:
            parts = tuple(self._summed(part) for part in encoded.parts)
            with self._worker.part("encode"):
                total = decode(self.codec, TorchEncoded(parts, encoded.known), elements)
                return total / self._workers
        everyone = zip(*(self._gathered(part) for part in encoded.parts), strict=True)
        with self._worker.part("encode"):
            decoded = [
                decode(self.codec, TorchEncoded(parts, encoded.known), elements)
                for parts in everyone
            ]
            return torch.stack(decoded).mean(dim=0)

    def _summed(self, part: Tensor) -> Tensor:
        total = part.clone()
        dist.all_reduce(total, group=self._group)
        return total

    def _gathered(self, part: Tensor) -> list[Tensor]:
        """Everybody's ``part``; first the lengths, since a threshold's payloads differ."""
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

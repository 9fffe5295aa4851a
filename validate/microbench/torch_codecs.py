"""The codecs of `dpsim.strategy.compression` in torch operators, for tensors on any device.

The results of numpy and torch for one vector are equal for deterministic codecs, and of the same
size and distribution for the others. They are plain operators in sequence, not fused kernels: their
times are for a straightforward implementation. A kind without operators here is encoded and decoded
by numpy in host memory, `has_operators` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch

from dpsim.base.errors import DpsimError
from dpsim.strategy.compression import Encoded, ceil_div, kept


class TorchEncoded(NamedTuple):
    """A payload: ``parts`` are sent; every worker draws the ``known`` ones by itself."""

    parts: tuple[Any, ...]
    known: tuple[Any, ...] = ()

    @property
    def nbytes(self) -> int:
        """The bytes that are sent."""
        return sum(int(part.nbytes) for part in self.parts)


Encode = Callable[..., TorchEncoded]  # (codec's configuration, vector, generator[, mean_of])
Decode = Callable[[Any, TorchEncoded, int], Any]  # (codec's configuration, payload, elements)


def _keep(part: Any) -> Any:
    return part


def encode(
    codec: Any, vector: Any, generator: Any, mean_of: Callable[[Any], Any] = _keep
) -> TorchEncoded:
    """Return the payload of a flat float32 tensor.

    ``codec`` is a configuration of `dpsim.strategy.compression`. For a chained codec, ``mean_of``
    averages each part over all workers before the next part is computed from it. Raises DpsimError
    for a chained codec without operators.
    """
    make = _CODECS.get(codec.kind, _BY_NUMPY)[0]
    if codec.chained:
        return make(codec, vector, generator, mean_of)
    return make(codec, vector, generator)


def decode(codec: Any, encoded: TorchEncoded, elements: int) -> Any:
    """Return the tensor that a payload represents."""
    return _CODECS.get(codec.kind, _BY_NUMPY)[1](codec, encoded, elements)


def has_operators(codec: Any) -> bool:
    """Return whether torch encodes and decodes on the device, or else numpy in host memory."""
    return codec.kind in _CODECS


def _encode_by_numpy(
    codec: Any, vector: Any, generator: Any, mean_of: Callable[[Any], Any] = _keep
) -> TorchEncoded:
    if codec.chained:
        raise DpsimError(
            f"strategy.compression: must be a codec with operators in torch where its parts depend "
            f"on one another's means, but got {codec.kind}"
        )
    seed = torch.randint(2**62, (1,), generator=generator, device=vector.device).item()
    encoded = codec.encode(vector.cpu().numpy(), np.random.default_rng(int(seed)))
    return TorchEncoded(tuple(_to_torch(part, vector) for part in encoded.parts), encoded.known)


def _decode_by_numpy(codec: Any, encoded: TorchEncoded, elements: int) -> Any:
    parts = tuple(_to_numpy(part) for part in encoded.parts)
    decoded = codec.decode(Encoded(parts, encoded.known), elements)
    return torch.from_numpy(decoded).to(encoded.parts[0].device)


def _to_torch(part: Any, vector: Any) -> Any:
    found = torch.from_numpy(part.copy())
    # numpy has no bfloat16, which codecs hold as uint16; sums on their way must be of numbers.
    found = found.view(torch.bfloat16) if found.dtype == torch.uint16 else found
    return found.to(vector.device)


def _to_numpy(part: Any) -> Any:
    held = part.view(torch.uint16) if part.dtype == torch.bfloat16 else part
    return held.cpu().numpy()


def _buckets(vector: Any, size: int) -> Any:
    rows = ceil_div(len(vector), size)
    padded = vector.new_zeros(rows * size)
    padded[: len(vector)] = vector
    return padded.view(rows, size)


def _divide(above: Any, below: Any) -> Any:
    """Return ``above / below``, 0 where ``below`` is 0."""
    # where() computes both branches: the divisor must be safe in the one that is discarded.
    safe = torch.where(below == 0, 1.0, below)
    return torch.where(below == 0, 0.0, above / safe)


def _flat(rows: Any, elements: int) -> Any:
    """Return the vector that `_buckets` made rows of, without the padding."""
    return rows.view(-1)[:elements]


def _weights(bits: int, device: Any) -> Any:
    """Return the value of each bit of a number, the highest first."""
    return 2 ** torch.arange(bits - 1, -1, -1, device=device, dtype=torch.int32)


def _bits(numbers: Any, bits: int) -> Any:
    """Return the lowest ``bits`` of each number as 0 and 1, the highest first."""
    shifts = torch.arange(bits - 1, -1, -1, device=numbers.device)
    return ((numbers.unsqueeze(1) >> shifts) & 1).view(-1)


def _pack(numbers: Any, bits: int) -> Any:
    """Pack numbers below 2**bits into bytes without gaps.

    The first number takes the highest bits of the first byte.
    """
    octets = _buckets(_bits(numbers, bits).to(torch.int32), 8)
    values = (octets * _weights(8, numbers.device)).sum(dim=1)
    return values.to(torch.uint8)


def _unpack(packed: Any, bits: int, count: int) -> Any:
    """Return the ``count`` numbers that `_pack` packed."""
    flags = _bits(packed.to(torch.int32), 8)
    # The last byte is padded with zeros.
    by_number = flags[: count * bits].view(count, bits)
    return (by_number * _weights(bits, packed.device)).sum(dim=1)


def _spread(of_buckets: Any, bucket: int, elements: int) -> Any:
    """Return the number of each bucket, for each element in it."""
    return of_buckets.repeat_interleave(bucket)[:elements]


def _random(like: Any, generator: Any) -> Any:
    """Return random numbers from 0 to 1, one per element."""
    return torch.rand(len(like), generator=generator, device=like.device)


def _scatter(elements: int, places: Any, values: Any) -> Any:
    vector = values.new_zeros(elements)
    vector[places.long()] = values
    return vector


def _encode_none(codec: Any, vector: Any, generator: Any) -> TorchEncoded:
    return TorchEncoded((vector,))


def _decode_none(codec: Any, encoded: TorchEncoded, elements: int) -> Any:
    return encoded.parts[0]


def _encode_cast(codec: Any, vector: Any, generator: Any) -> TorchEncoded:
    narrow = torch.float16 if codec.format == "fp16" else torch.bfloat16
    return TorchEncoded((vector.to(narrow),))


def _decode_cast(codec: Any, encoded: TorchEncoded, elements: int) -> Any:
    return encoded.parts[0].to(torch.float32)


def _encode_int8(codec: Any, vector: Any, generator: Any) -> TorchEncoded:
    rows = _buckets(vector, codec.bucket)
    scales = rows.abs().amax(dim=1) / 127
    exact = _divide(rows, scales.unsqueeze(1))
    steps = exact.round().clamp(-127, 127).to(torch.int8)
    return TorchEncoded((scales, _flat(steps, len(vector))))


def _decode_int8(codec: Any, encoded: TorchEncoded, elements: int) -> Any:
    scales, steps = encoded.parts
    return steps.to(torch.float32) * _spread(scales, codec.bucket, elements)


def _encode_qsgd(codec: Any, vector: Any, generator: Any) -> TorchEncoded:
    rows = _buckets(vector, codec.bucket)
    norms = rows.abs().amax(dim=1) if codec.norm == "max" else rows.norm(dim=1)
    shares = _divide(rows, norms.unsqueeze(1))
    exact = _flat(shares * codec.levels, len(vector))
    # Stochastic rounding takes the nearer level with the higher probability: the mean is exact.
    rounded = (exact + _random(vector, generator)).floor()
    # In float32 the sum at the largest element may come out one level too high.
    levels = rounded.clamp(-codec.levels, codec.levels)
    # Packed numbers have no sign.
    from_zero = (levels + codec.levels).to(torch.int32)
    return TorchEncoded((norms, _pack(from_zero, codec.bits)))


def _decode_qsgd(codec: Any, encoded: TorchEncoded, elements: int) -> Any:
    norms, packed = encoded.parts
    levels = (_unpack(packed, codec.bits, elements) - codec.levels).to(torch.float32)
    return levels / codec.levels * _spread(norms, codec.bucket, elements)


def _encode_ternary(codec: Any, vector: Any, generator: Any) -> TorchEncoded:
    rows = _buckets(vector, codec.bucket or len(vector))
    scales = rows.abs().amax(dim=1)
    shares = _divide(rows.abs(), scales.unsqueeze(1))
    # The nearer an element is to the scale, the likelier its sign is sent, so the mean is exact.
    is_kept = _random(vector, generator) < _flat(shares, len(vector))
    signs = torch.where(is_kept, vector.sign(), 0.0)
    from_zero = (signs + 1).to(torch.int32)
    return TorchEncoded((scales, _pack(from_zero, 2)))


def _decode_ternary(codec: Any, encoded: TorchEncoded, elements: int) -> Any:
    scales, packed = encoded.parts
    signs = (_unpack(packed, 2, elements) - 1).to(torch.float32)
    return signs * _spread(scales, codec.bucket or elements, elements)


def _encode_onebit(codec: Any, vector: Any, generator: Any) -> TorchEncoded:
    rows = _buckets(vector, codec.column)
    # Padding is zeros, which would count among the positive elements.
    inside = _buckets(torch.ones_like(vector), codec.column) > 0
    plus = (rows >= 0) & inside
    minus = inside & ~plus
    # (columns, 2) in the order of the sign bits, which index it when decoding.
    means = torch.stack([_means(rows, minus), _means(rows, plus)], dim=1)
    signs = (vector >= 0).to(torch.int32)
    return TorchEncoded((means, _pack(signs, 1)))


def _means(rows: Any, chosen: Any) -> Any:
    """Return each row's mean over its chosen elements, 0 if there are none."""
    sums = torch.where(chosen, rows, 0.0).sum(dim=1, dtype=torch.float64)
    counts = chosen.sum(dim=1).clamp(min=1)
    return (sums / counts).to(torch.float32)


def _decode_onebit(codec: Any, encoded: TorchEncoded, elements: int) -> Any:
    means, signs = encoded.parts
    columns = torch.arange(elements, device=means.device) // codec.column
    signed = _unpack(signs, 1, elements).long()
    return means[columns, signed]


def _encode_top_k(codec: Any, vector: Any, generator: Any) -> TorchEncoded:
    count = kept(codec.density, len(vector))
    largest = vector.abs().topk(count, sorted=False)
    # In index order, so that decoding writes through memory in order.
    places = largest.indices.sort().values
    return TorchEncoded((places.to(torch.int32), vector[places]))


def _decode_at_places(codec: Any, encoded: TorchEncoded, elements: int) -> Any:
    places, values = encoded.parts
    return _scatter(elements, places, values)


def _encode_random_k(codec: Any, vector: Any, generator: Any) -> TorchEncoded:
    count = kept(codec.density, len(vector))
    places = torch.randperm(len(vector), generator=generator, device=vector.device)[:count]
    # Scaled up, the mean over draws is the vector; with error feedback the rest is sent later.
    scale = 1.0 if codec.error_feedback else len(vector) / count
    return TorchEncoded((vector[places] * scale,), (places,))


def _decode_at_known_places(codec: Any, encoded: TorchEncoded, elements: int) -> Any:
    return _scatter(elements, encoded.known[0], encoded.parts[0])


def _encode_threshold(codec: Any, vector: Any, generator: Any) -> TorchEncoded:
    unit = 1.0
    if codec.unit != "absolute":
        # In float64, since a long sum of squares loses small ones in float32.
        unit = vector.double().square().mean().sqrt()
    places = (vector.abs() > codec.bound * unit).nonzero().view(-1)
    return TorchEncoded((places.to(torch.int32), vector[places]))


def _encode_powersgd(
    codec: Any, vector: Any, generator: Any, mean_of: Callable[[Any], Any]
) -> TorchEncoded:
    # Sent unchanged if too small for two factors to be smaller.
    if len(codec.stages(len(vector))) == 1:
        return TorchEncoded((mean_of(vector),))
    columns = codec.shape(len(vector))[1]
    matrix = _buckets(vector, columns)
    start = torch.randn(columns, codec.rank, generator=generator, device=vector.device)
    # This is a step of power iteration, as in Vogels et al., "PowerSGD", 2019, algorithm 1.
    # Every worker decomposes the same mean, and so has the same first factor without sending it.
    p, _ = torch.linalg.qr(mean_of(matrix @ start))
    return TorchEncoded((p, mean_of(matrix.T @ p)))


def _decode_powersgd(codec: Any, encoded: TorchEncoded, elements: int) -> Any:
    if len(encoded.parts) == 1:
        return encoded.parts[0]
    p, q = encoded.parts
    return (p @ q.T).view(-1)[:elements]


_BY_NUMPY: tuple[Encode, Decode] = (_encode_by_numpy, _decode_by_numpy)
_CODECS: Mapping[str, tuple[Encode, Decode]] = {
    "none": (_encode_none, _decode_none),
    "cast": (_encode_cast, _decode_cast),
    "int8": (_encode_int8, _decode_int8),
    "qsgd": (_encode_qsgd, _decode_qsgd),
    "ternary": (_encode_ternary, _decode_ternary),
    "onebit": (_encode_onebit, _decode_onebit),
    "top-k": (_encode_top_k, _decode_at_places),
    "random-k": (_encode_random_k, _decode_at_known_places),
    "threshold": (_encode_threshold, _decode_at_places),
    "powersgd": (_encode_powersgd, _decode_powersgd),
}

"""What an operation becomes on the wire: its codec's bytes, by which collective they travel, and what that costs the GPU."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsim.aggregation import Operation
from dpsim.compression import Codec
from dpsim.hardware import Gpu
from dpsim.topology.network import FloatArray

_ELEMENT = 4  # bytes of an uncompressed element


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """``stages``: bytes of each collective, one after the other; ``encode`` and ``decode``: seconds on each kind of GPU."""

    ready: int
    needed: int
    collective: str
    stages: tuple[int, ...]
    encode: FloatArray
    decode: FloatArray


def message(operation: Operation, codec: Codec, workers: int, gpus: tuple[Gpu, ...]) -> Message:
    """``operation`` as ``codec`` sends it: summed in flight by its own collective, or gathered from all ``workers``."""
    elements = max(operation.nbytes // _ELEMENT, 1)
    payloads = 1 if codec.sums_in_flight else workers
    costs = [{"memory_bandwidth": gpu.memory_bandwidth.value, "peak": max(p.value for p in gpu.peak.values())} for gpu in gpus]
    return Message(
        operation.ready,
        operation.needed,
        operation.collective if codec.sums_in_flight else "all-gather",
        tuple(payloads * nbytes for nbytes in codec.stages(elements)),
        np.array([codec.encode_seconds(elements, **cost) for cost in costs]),
        np.array([codec.decode_seconds(elements, payloads=payloads, **cost) for cost in costs]),
    )

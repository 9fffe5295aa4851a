"""What a collective call becomes on the wire.

Its codec's bytes, by which collectives they travel, and what that costs the GPU.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.hardware import Gpu
from dpsim.strategy.aggregation import Aggregation, CollectiveCall, Group
from dpsim.strategy.compression import Codec, NoCompressionConfig
from dpsim.topology import Mesh
from dpsim.workload import Program

_PLAIN = NoCompressionConfig(kind="none")
_COMPRESSED = ("gradients", "models")


@dataclass(frozen=True, slots=True, eq=False)
class StagedCall:
    """A collective call as its codec encodes it and its aggregation stages it.

    ``stages``: collectives, one after the other, and their bytes. ``encode`` and ``decode``:
    seconds on each kind of GPU. ``group`` and ``lag`` are the call's.
    """

    name: str
    ready: int
    needed: int
    stages: tuple[tuple[str, int], ...]
    encode: FloatArray
    decode: FloatArray
    group: Group = "all"
    lag: int = 0

    def repeats(self, later: StagedCall, program: Program) -> bool:
        """Whether ``later`` is the same a pass later.

        What is needed past the passes is needed there, whichever pass sends it.
        """
        shift = program.pass_length
        needed = self.needed + (shift if self.needed < program.end else 0)
        return (
            later.ready == self.ready + shift
            and later.needed == needed
            and later.stages == self.stages
            and bool((later.encode == self.encode).all())
        )


def staged(
    call: CollectiveCall,
    codec: Codec,
    aggregation: Aggregation,
    mesh: Mesh,
    gpus: tuple[Gpu, ...],
) -> StagedCall:
    """``call`` as ``codec`` makes it and ``aggregation`` carries it.

    ``mesh`` is of those who meet. Weights, samples and the loss travel as they are.
    """
    codec = codec if call.payload in _COMPRESSED else _PLAIN
    elements = max(call.nbytes // call.width, 1)
    wire = (call.nbytes,) if codec.exact else codec.stages(elements)
    summed = codec.sums_in_flight
    payloads = aggregation.payloads(mesh.ranks, sums_in_flight=summed)
    costs = [
        {"memory_bandwidth": gpu.memory_bandwidth.value, "peak": _float32_peak(gpu)} for gpu in gpus
    ]
    decode = [
        codec.decode_seconds(elements, payloads=payloads, **cost) if payloads else 0.0
        for cost in costs
    ]
    return StagedCall(
        call.name,
        call.ready,
        call.needed,
        aggregation.stages(call.collective, wire, call.nbytes, sums_in_flight=summed, mesh=mesh),
        np.array([codec.encode_seconds(elements, **cost) for cost in costs]),
        np.array(decode),
        call.group,
        call.lag,
    )


def _float32_peak(gpu: Gpu) -> float:
    """FLOP/s that codecs compute with.

    Of a GPU of which only lower precisions are known, the lowest rate.
    """
    known = gpu.peak.get("fp32")
    return known.value if known else min(peak.value for peak in gpu.peak.values())

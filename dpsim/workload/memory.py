"""The memory that a training step takes on a GPU, by parts: weights, gradients, activations, ...

With P parameters and N workers, the bytes of model state on each of them are

| stage | weights | gradients | optimiser state |
| --- | --- | --- | --- |
| 0: all-reduce, everything on every worker | w P | g P | s P |
| 1: ZeRO 1, optimiser state divided | w P | g P | s P / N |
| 2: ZeRO 2, gradients too | w P | g P / N | s P / N |
| 3: ZeRO 3 or FSDP, weights too | w P / N | g P / N | s P / N |

N is the number of workers in a shard group. Gradients that are accumulated over several passes
before they are reduced (no_sync) are whole on every worker in every stage.

(w, g, s) is (4, 4, 4 x states) in fp32 and (2, 2, 4 + 4 x states) in mixed precision, s with the
fp32 copy of the weights; plain SGD keeps no state, momentum one, Adam two. Adam in mixed precision
takes 16 bytes per parameter. Frozen weights have neither gradients nor state, and take w. Under
torch's autocast the weights and gradients are fp32 and there is no copy: the same sum at stage 0.
In pure bf16 all take 2 bytes, (2, 2, 2 x states): 8 with Adam. Source: Rajbhandari et al., "ZeRO:
Memory Optimizations Toward Training Trillion Parameter Models", SC 2020, figure 1 and section 3.

Activations are what layers keep for backward, per sample. With checkpointing only the tensors
between segments of the network are kept, and one segment at a time is recomputed: Chen et al.,
"Training Deep Nets with Sublinear Memory Cost", 2016. ``batch`` is the batch of one pass: gradient
accumulation divides it. The loss over a vocabulary temporarily takes more (`loss_bytes`). Not
counted: the batch itself, masks, and the workspaces of convolutions.

By this, all 481 published batches of quality ok on a known GPU (the reference tables single_gpu.csv
and scaling.csv) fit. One of 50 others, which have a caution, is 7 % too large: ResNet-50 with 128
images on a K80, whose context is smaller.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from dpsim.base.errors import DpsimError
from dpsim.workload.compute_constants import NEWEST_KERNELS
from dpsim.workload.compute_times import WIDTH, Precision
from dpsim.workload.layer import Model
from dpsim.workload.optimizers import Optimizer, optimizer_state_bytes
from dpsim.workload.recompute import Recompute, kept_by_block, last_kept
from dpsim.workload.software import BY_TIER, Software

STAGES = (0, 1, 2, 3)
MOST_BATCH = 2**31
STAGE_NAMES = ("replicated", "ZeRO 1", "ZeRO 2", "ZeRO 3 / FSDP")

_NEVER = len(STAGES)  # beyond the last stage

# Bytes of the CUDA context and the framework's kernels: 1,343 MB after one small tensor in Hugging
# Face's "Model training anatomy" (2023); less on older GPUs and with lazily loaded kernels.
CONTEXT = 1.3e9

# The caching allocator's fragmentation, as a share of the allocated bytes. Assumed: plain
# training loses a few percent; GMLake (Guo et al., ASPLOS 2024) measured 15 % on average, 33 % at
# worst, for language models with recomputation and offloading.
FRAGMENTATION = 0.05

# DeepSpeed's reduce_bucket_size: ZeRO 1 and 2 reduce gradients in one bucket and fill another.
_REDUCE_BUCKET = 5e8  # elements

_HALF, _FLOAT = 2, 4  # bytes
_CHUNKS = 8  # of tokens in a chunked loss (torchtune, torchtitan)


@dataclass(frozen=True, slots=True)
class StateBytes:
    """Bytes per parameter of weights, gradients and optimiser state."""

    weights: int
    gradients: int
    optimizer: float


def state_bytes(precision: Precision, optimizer: Optimizer, kept: int = _FLOAT) -> StateBytes:
    """Return the bytes per parameter of model state, before sharding.

    Weights, gradients and state have ``kept`` bytes per value, except state in 8 bits.
    """
    width, states = WIDTH[precision], optimizer_state_bytes(optimizer, kept)
    if kept < _FLOAT:
        return StateBytes(kept, kept, states)
    return StateBytes(width, width, states if width == 4 else 4 + states)


@dataclass(frozen=True, slots=True)
class Setup:
    """The training setup, as far as memory depends on it.

    - ``batch``: samples of one pass of one learner; ``workers``: GPUs; ``learners``: replicas per
      GPU; ``stage``: ZeRO stage, 0 to 3; ``shard_group``: workers of a shard group (None: all).
    - ``checkpointing``: activations are recomputed, as in ``recompute`` (None: everything, in
      segments that minimise memory).
    - ``gradient_bytes``: width of sent gradients; ``weight_bytes``: width of gathered weights
      (None: as kept).
    - ``whole_gradients``: gradients are whole over several passes in any stage;
      ``whole_over_passes``: they would be, if the batch were split into passes.
    - ``units_ahead``: blocks whose weights are gathered ahead of use (None: all);
      ``views_buckets``: gradients of stage 0 are views of their communication buckets.
    - ``cell``: GPUs that split the model, each with an equal part of everything.
    - ``outer_bytes``: bytes per parameter of an outer optimiser's state.
    - ``offloaded``: optimizer (with gradient shards), parameters, activations: in host memory.
    """

    batch: int
    precision: Precision = "fp32"
    optimizer: Optimizer = "momentum"
    stage: int = 0
    workers: int = 1
    checkpointing: bool = False
    recompute: Recompute | None = None
    learners: int = 1
    gradient_bytes: int = 4
    weight_bytes: int | None = None
    shard_group: int | None = None
    whole_gradients: bool = False
    whole_over_passes: bool = False
    views_buckets: bool = False
    units_ahead: int | None = 1
    outer_bytes: float = 0.0
    cell: int = 1
    offloaded: tuple[str, ...] = ()
    software: Software = BY_TIER["typical"]

    def is_offloaded(self, part: str) -> bool:
        """Return whether a part is offloaded, which it can be only if the stage shards it."""
        return part in self.offloaded and self.stage >= (3 if part == "parameters" else 1)

    @property
    def shards(self) -> int:
        """The number of workers that share each sharded part."""
        return self.shard_group or self.workers

    def __post_init__(self) -> None:
        for name in ("batch", "workers", "learners"):
            value = getattr(self, name)
            if value < 1:
                raise DpsimError(f"{name} must be at least 1, but got {value}")
        if self.stage not in STAGES:
            raise DpsimError(f"stage must be 0, 1, 2 or 3, but got {self.stage}")
        if self.learners > 1 and self.stage > 0:
            raise DpsimError(
                f"learners must be 1 where model state is divided (stage {self.stage}), but got "
                f"{self.learners}"
            )


@dataclass(frozen=True, slots=True)
class Footprint:
    """Bytes of each part of one GPU's memory."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    loss: float
    buckets: float
    fragmentation: float = 0.0
    context: float = 0.0

    @property
    def total(self) -> float:
        """Total bytes."""
        return sum(self.parts().values())

    def fits(self, capacity: float) -> bool:
        """Return whether the total is at most ``capacity`` bytes."""
        return self.total <= capacity

    @property
    def model_state(self) -> float:
        """Bytes of weights, gradients and optimiser state."""
        return self.weights + self.gradients + self.optimizer

    def parts(self) -> dict[str, float]:
        """Return the parts by name, in order."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


def footprint(model: Model, setup: Setup) -> Footprint:
    """Return the bytes that training ``model`` takes on each GPU."""
    state = state_bytes(setup.precision, setup.optimizer, model.parameter_bytes)
    # GPUs of a cell hold equal parts of the model, each with its state.
    elements, trained = model.parameters / setup.cell, model.trained / setup.cell
    # Accumulated gradients are whole in any stage.
    gradients_divided = _NEVER if setup.whole_gradients else 2
    weights, gradients, optimizer = (
        setup.learners * width * each / (setup.shards if setup.stage >= sharded_from else 1)
        for width, each, sharded_from in (
            (state.weights, elements, 3),
            (state.gradients, trained, gradients_divided),
            (state.optimizer, trained, 1),
        )
    )
    if setup.is_offloaded("parameters"):
        weights = 0.0
    if setup.is_offloaded("optimizer"):
        optimizer = 0.0
        # Shards are copied to the host when they are reduced.
        gradients = gradients if gradients_divided > setup.stage else 0.0
    # Its caller has already divided the outer state.
    optimizer += setup.outer_bytes * trained
    samples = setup.learners * setup.batch
    activations = float(samples * sample_activations(model, setup))
    gathered, reduced = _buckets(model, setup)
    # The loss is freed before gradients are reduced: the larger of the two counts.
    buckets, loss = gathered + reduced, max(samples * loss_bytes(model, setup) - reduced, 0.0)
    held = Footprint(weights, gradients, optimizer, activations, loss, buckets)
    return replace(held, fragmentation=FRAGMENTATION * held.total, context=CONTEXT)


def sample_activations(model: Model, setup: Setup) -> int:
    """Return the peak bytes of activations per sample in a pass."""
    if setup.is_offloaded("activations"):
        elements = _elements_in_two_blocks(model, setup)
    elif not setup.checkpointing:
        elements = model.activations
    elif setup.recompute is None:
        elements = model.cached(checkpointed_activations)
    else:
        elements = model.cached(_held, setup.recompute)
    if setup.software.cross_entropy == "fused":
        elements = max(elements - model.cached(_logits), 0)
    return WIDTH[setup.precision] * elements


def _held(model: Model, recompute: Recompute) -> int:
    return recompute.of(model).held


def _elements_in_two_blocks(model: Model, setup: Setup) -> int:
    """Return the elements per sample of two blocks (in use, in transit) and of a segment."""
    recompute = setup.recompute or (Recompute() if setup.checkpointing else None)
    inside = 0 if recompute is None else recompute.of(model).largest
    return inside + 2 * int(kept_by_block(model, recompute).max())


def offloaded_bytes(model: Model, setup: Setup) -> float:
    """Return the bytes that one GPU offloads to the host's memory or drives."""
    here, whole = footprint(model, setup), footprint(model, replace(setup, offloaded=()))
    state = whole.model_state - here.model_state
    if not setup.is_offloaded("activations"):
        return state
    return state + max(whole.activations - here.activations, 0.0)


def loss_bytes(model: Model, setup: Setup) -> int:
    """Return the extra bytes per sample that the loss takes at the peak of memory.

    - full: a softmax in fp32, with a copy of its input (except in full precision), its logarithms,
      and the gradients of input and copy. Compiled blocks before it save as much as its logarithms
      take (torchtitan's peaks of December 2024, which compiled no loss).
    - compiled: a buffer for the gradient only (TorchInductor of torch 2.13).
    - chunked: logarithms and gradient of all tokens, and a copy of one of eight chunks: 7 bytes,
      while torchtitan saved all but 6.5 of 14 (pull request 996, 2025).
    - fused with the output layer: nothing.

    The kernels of 2022 and 2023 are MosaicML's, whose fused loss writes its gradient over its
    input; otherwise their published batches would not fit.
    """
    software, width = setup.software, WIDTH[setup.precision]
    if software.kernels != NEWEST_KERNELS or software.cross_entropy == "fused":
        return 0
    casts = _FLOAT + _HALF if width == _HALF else 0
    logarithms = _FLOAT if software.is_eager else 0
    bytes_per_logit = {
        "full": casts + logarithms + _FLOAT,
        "compiled": width,
        "chunked": _FLOAT + width + _FLOAT * 2 // _CHUNKS,
    }
    return model.cached(_logits) * bytes_per_logit[software.cross_entropy]


def _logits(model: Model) -> int:
    """Return the number of logits per sample of the loss over a vocabulary."""
    return sum(layer.activations for layer in model.layers if layer.kind == "loss")


def checkpointed_activations(model: Model) -> int:
    """Return the elements per sample with everything checkpointed.

    These are the inputs of all segments, and all of the largest segment, which is recomputed.
    Segments are runs of blocks (or layers, if names show no blocks), as many as minimise memory. A
    segment's output is assumed to be as large as the last tensor that it keeps.
    """
    blocks = [
        [layer.activations for layer in model.layers[first:end]] for first, end in model.blocks
    ]
    inside = np.array([sum(block) for block in blocks], dtype=np.int64)
    out = np.array([last_kept(block) for block in blocks], dtype=np.int64)
    return min(_with_segments(inside, out, count) for count in range(1, len(blocks) + 1))


def _with_segments(inside: NDArray[np.int64], out: NDArray[np.int64], count: int) -> int:
    """Return the elements held with about ``count`` segments of equal activations."""
    before = np.cumsum(inside) - inside
    # A block belongs to the segment of its first activation. Integers avoid rounding at the
    # borders. Final blocks that keep nothing belong to the last segment.
    segment = np.minimum(before * count // max(int(inside.sum()), 1), count - 1)
    # The output of the last segment is no segment's input.
    last = np.append(segment[1:] != segment[:-1], False)
    return int(out[last].sum() + np.bincount(segment, weights=inside).max())


def _buckets(model: Model, setup: Setup) -> tuple[float, float]:
    """Return the bytes of communication buffers: permanent ones, and those of backward passes.

    Stage 0: a copy of all gradients, unless torch's DistributedDataParallel uses views. Stages 1
    and 2: two buckets of gradients. Stage 3: weights of the largest blocks (one in use, others in
    transit; none in a group of one), and in backward passes the gradients of a block and their copy
    in the format in which they are sent.
    """
    if setup.workers == 1:
        return 0.0, 0.0
    width = min(setup.gradient_bytes, model.parameter_bytes)
    if setup.stage == 0:
        return (0.0 if setup.views_buckets else width * model.trained / setup.cell), 0.0
    state = state_bytes(setup.precision, setup.optimizer, model.parameter_bytes)
    if setup.stage < 3:
        return float(state.gradients * min(2 * _REDUCE_BUCKET, model.trained)), 0.0
    sizes, reduced = model.cached(_block_weights)
    held = len(sizes) if setup.units_ahead is None else 1 + setup.units_ahead
    if setup.shards == 1:
        held = 0
    gathered = min(setup.weight_bytes or state.weights, model.parameter_bytes)
    return float(gathered * sum(sizes[:held])), float((state.gradients + width) * reduced)


def _block_weights(model: Model) -> tuple[list[int], int]:
    """Return the weights of each block, largest first, and the most trained weights of a block."""
    blocks = [model.layers[first:end] for first, end in model.blocks]
    sizes = sorted((sum(layer.own_weights for layer in block) for block in blocks), reverse=True)
    return sizes, max(sum(layer.trained_weights for layer in block) for block in blocks)


def largest_batch(model: Model, setup: Setup, capacity: float) -> int:
    """Return the largest batch of one pass that fits in ``capacity`` bytes, from 0 to 2^31."""

    def is_too_large(batch: int) -> bool:
        return not footprint(model, replace(setup, batch=batch)).fits(capacity)

    # Bisection, because memory need not be proportional to the batch: in stage 3 the loss counts
    # only as far as it exceeds the buffers of backward passes.
    return bisect_left(range(1, MOST_BATCH + 1), True, key=is_too_large)

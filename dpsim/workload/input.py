"""The input of training samples, from memory or by a pipeline of storage, decoding and copies.

Batch k of a GPU is read (r seconds, one batch at a time), decoded by one of W loader workers (d
seconds; they take batches in turn), and copied to the GPU (c seconds, one at a time). The loader
runs at most P batches ahead: it begins to read batch k when the GPU has taken batch k - P. If the
GPU is ready for batch k at ``s_k``,

    slot_k    = take_{k-P}                              (0 for the first P)
    read_k    = max(slot_k, read_{k-1}) + r
    decoded_k = max(read_k, decoded_{k-W}) + d
    ready_k   = max(decoded_k, ready_{k-1}) + c
    take_k    = max(ready_k, s_k),

and the GPU waits take_k - s_k for input. This is linear in (max, +), so its steady period is the
largest mean of its cycles:

    max(step, r, d / W, c, (r + d + c) / P),

and the first step waits r + d + c. Source of the method: Baccelli, Cohen, Olsder and Quadrat,
"Synchronization and Linearity", 1992; batches per loader worker and batches ahead as in torch's
DataLoader.

A batch here is all that a GPU takes in a step, for all its accumulated passes and learners. Stages
are vectors over GPUs. Shared storage and links are divided evenly, as if all GPUs loaded at once;
copies do not contend with gradients, nor loader workers for cores.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.config import Config
from dpsim.base.units import Bytes, BytesPerSecond, Seconds

if TYPE_CHECKING:
    from dpsim.workload.layer import Model

STAGES = ("storage", "decoding", "copy to the GPU", "prefetch")

_MOST_AHEAD = 4096  # batches whose times are stored for each GPU


class _Input(Config):
    """The base of all kinds of input."""

    is_loaded: ClassVar[bool] = True
    """Whether samples pass a pipeline; otherwise they are in GPU memory from the start."""

    def pipeline(self, samples: int, node_of: IntArray, copy_rate: FloatArray) -> Pipeline:
        """Return the pipeline of GPUs that take ``samples`` per step, if `is_loaded`.

        ``node_of`` (GPUs,) is the node of each GPU, ``copy_rate`` (GPUs,) the B/s of copies to it.
        """
        raise NotImplementedError

    def host_seconds(self, script: float, samples: int, model: Model) -> float:
        """Return the seconds per step that the GPU waits for the host to feed ``samples``.

        ``script`` is the measured time of scripts that feed samples themselves.
        """
        return 0.0


class MemoryInput(_Input):
    """Samples are on the GPU already: input costs nothing."""

    is_loaded: ClassVar[bool] = False

    kind: Literal["memory"] = Field("memory", description="Samples wait in GPU memory.")


class ScriptInput(_Input):
    """The training script feeds samples itself, and the GPU waits for it in each step."""

    is_loaded: ClassVar[bool] = False

    kind: Literal["script"] = Field(
        description="The script prepares each batch and copies it, while the GPU waits."
    )
    seconds_per_step: Seconds | None = Field(
        None,
        description="Time of the script in each step; as measured for such scripts if left out.",
    )
    copy_rate: BytesPerSecond = Field(
        12e9, description="Rate at which images are copied to the GPU; the default is PCIe 3's."
    )

    def host_seconds(self, script: float, samples: int, model: Model) -> float:
        """Return the seconds of the script and of copying the step's images."""
        taken = script if self.seconds_per_step is None else self.seconds_per_step
        return taken + samples * model.image_bytes / self.copy_rate


class StorageInput(_Input):
    """Samples are read, decoded and copied while the previous step computes.

    The defaults are ImageNet's, for PIL and torch.
    """

    kind: Literal["storage"] = Field(
        description="Samples are read from storage, decoded and copied to the GPU."
    )
    bandwidth: BytesPerSecond = Field(
        2e9,
        description="Bandwidth of the storage; the default is one NVMe disk's, read at random.",
    )
    shared: Literal["node", "cluster"] = Field(
        "node", description="GPUs that share the storage's bandwidth: the GPUs of a node, or all."
    )
    bytes_per_sample: Bytes = Field(
        110e3, description="Size of a sample in storage; the default is ImageNet's mean JPEG."
    )
    cpu_seconds_per_sample: Seconds = Field(
        8e-3,
        description=(
            "Time of one loader process to decode and augment a sample; the "
            "default is JPEG to 224x224 with PIL, assumed."
        ),
    )
    device_bytes_per_sample: Bytes = Field(
        602_112.0,
        description="Size of a sample copied to the GPU; the default is 3 x 224 x 224 in fp32.",
    )
    loader_workers: Annotated[int, Field(ge=1, le=_MOST_AHEAD)] = Field(
        8, description="Loader processes of each GPU."
    )
    prefetch: Annotated[int, Field(ge=1, le=_MOST_AHEAD)] | None = Field(
        None,
        description="Batches per GPU to prefetch; two per loader process if left out.",
    )

    def pipeline(self, samples: int, node_of: IntArray, copy_rate: FloatArray) -> Pipeline:
        """Return a pipeline of storage, loader processes and copies."""
        group_of = np.zeros_like(node_of) if self.shared == "cluster" else node_of
        # Divided by the number of GPUs that share a storage.
        rate = self.bandwidth / np.bincount(group_of)[group_of]
        return Pipeline(
            read=samples * self.bytes_per_sample / rate,
            decode=np.full(len(rate), samples * self.cpu_seconds_per_sample),
            copy=samples * self.device_bytes_per_sample / copy_rate,
            loaders=self.loader_workers,
            # The default of torch's prefetch_factor is 2.
            prefetch=self.prefetch or 2 * self.loader_workers,
        )


InputConfig = Annotated[MemoryInput | ScriptInput | StorageInput, Field(discriminator="kind")]


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """The seconds that a batch spends in each stage, vectors over GPUs.

    ``loaders`` decode in parallel, and ``prefetch`` batches are loaded ahead.
    """

    read: FloatArray
    decode: FloatArray
    copy: FloatArray
    loaders: int
    prefetch: int

    def stage_periods(self) -> FloatArray:
        """Return the least seconds between batches by stage (`STAGES`), shape (stages, GPUs)."""
        latency = self.read + self.decode + self.copy
        # A batch occupies one of the P slots from the start of its read to the end of its copy.
        return np.array([self.read, self.decode / self.loaders, self.copy, latency / self.prefetch])

    def period(self) -> FloatArray:
        """Return the least seconds between batches of each GPU: longer steps do not wait."""
        return np.asarray(self.stage_periods().max(axis=0))

    def slowest_stage(self) -> str:
        """Return the stage that limits the GPU with the slowest input."""
        periods = self.stage_periods()
        return STAGES[int(periods[:, int(periods.max(axis=0).argmax())].argmax())]

    def limits(self, busy: float) -> bool:
        """Return whether some GPU gets batches at a longer period than ``busy`` seconds."""
        return bool(self.period().max() > busy * (1 + 1e-9))

    def burst(self) -> int:
        """Return how many batches arrive at once if the slowest stage limits the steps.

        Loader workers that start together finish together, as do batches that wait for a slot.
        """
        sizes = {"decoding": self.loaders, "prefetch": self.prefetch}
        return sizes.get(self.slowest_stage(), 1)

    def of(self, gpu: int) -> Pipeline:
        """Return the pipeline of one GPU, for asynchronous workers."""
        only = slice(gpu, gpu + 1)
        return Pipeline(
            self.read[only], self.decode[only], self.copy[only], self.loaders, self.prefetch
        )

    def start(self) -> Loading:
        """Start the pipeline at time 0."""
        return Loading(self)


class Loading:
    """A running pipeline: call `take` once for each step."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        zeros = np.zeros(len(pipeline.read))
        # Queues of P and W entries. For batch k the leftmost are batch k - P, whose slot it uses,
        # and batch k - W, which the same loader worker decoded.
        self._taken: deque[FloatArray] = deque([zeros] * pipeline.prefetch, pipeline.prefetch)
        self._decoded: deque[FloatArray] = deque([zeros] * pipeline.loaders, pipeline.loaders)
        self._read = self._ready = zeros

    def take(self, clock: FloatArray) -> FloatArray:
        """Return when each GPU gets its next batch, which it requests at ``clock``."""
        stages = self._pipeline
        self._read = np.maximum(self._taken[0], self._read) + stages.read
        decoded = np.maximum(self._read, self._decoded[0]) + stages.decode
        self._ready = np.maximum(decoded, self._ready) + stages.copy
        taken = np.maximum(self._ready, clock)
        self._taken.append(taken)
        self._decoded.append(decoded)
        return taken

"""The work of published steps on their GPUs, from dpsim's scenario of each row.

Equal layers are listed once, with their number; exposed communication is simulated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from dpsim.base.arrays import BoolArray, FloatArray, IntArray
from dpsim.engine import Job, accelerator, overlapped_bytes
from dpsim.workload import (
    CONSTANTS,
    Accelerator,
    Constants,
    LayerWork,
    Machine,
    constants_from,
    is_throttled,
    members_of,
    update_bytes,
    update_rounds,
)
from tools.refits.block_fit import soft_maximum

_SHARPNESS = 4.0  # of a smooth maximum of device and host, in place of the queue of kernels


@dataclass(frozen=True, eq=False)
class RowWork:
    """A row: distinct layers, ``count`` of each, ``recomputed`` of which are computed twice.

    ``machine`` has no clock of the board; ``power`` is its watts for each FLOP/s of half precision
    (inf: unknown). Bytes communicated ``beside`` a forward pass, each backward pass, and the extra
    ones of the last; ``moved`` bytes are copied in each pass. ``update`` is the bytes and
    ``tensors`` the tensors that are updated; ``script`` is 1 if a script feeds samples, whose
    copies take ``copied`` s; ``rest`` s is the exposed communication.
    """

    layers: LayerWork
    count: FloatArray
    recomputed: FloatArray
    batch: int
    passes: int
    machine: Machine
    power: float
    throttled: bool
    members: Mapping[str, str]
    beside: tuple[float, float, float]
    moved: float
    update: float
    tensors: float
    script: float
    copied: float
    rest: float

    @classmethod
    def of(cls, job: Job, step: float, updated: float) -> RowWork:
        """Return the work of a job with one kind of GPU, whose simulated step takes ``step`` s.

        ``updated`` is the part of the model that each GPU updates.
        """
        workload, (gpu, _) = job.scenario.workload, job.cluster.accelerators[0]
        board, software = accelerator(gpu), workload.full_software
        layers, count, recomputed = _distinct(job)
        overlapped = overlapped_bytes(job)
        # Where only the last of several passes sends gradients, all other passes have the minimum.
        each = float(overlapped.backward.min())
        copied = job.scenario.strategy.aggregation.copied_bytes(job.model)
        return cls(
            layers,
            count,
            recomputed,
            workload.batch_per_gpu,
            workload.gradient_accumulation,
            board.machine(workload.precision, software, Constants()),
            _watts(board),
            is_throttled(board.power),
            members_of(job.model, board.generation, workload.precision, software),
            (float(overlapped.forward.mean()), each, float(overlapped.backward.max()) - each),
            0.0 if job.silent else sum(copied),
            updated * update_bytes(workload.optimizer) * job.model.trained,
            updated * update_rounds(workload.optimizer) * len(job.model.tensors.elements),
            workload.input.host_seconds(1.0, 0, job.model),
            workload.input.host_seconds(0.0, workload.samples_per_gpu, job.model),
            step - job.times[0].step,
        )


def _watts(board: Accelerator) -> float:
    half = max(board.peak_flop_per_s.get(name, 0.0) for name in ("fp16", "bf16"))
    return board.power / half if board.power and half else float("inf")


@dataclass(frozen=True, eq=False)
class Work:
    """The layers of all rows, concatenated; ``row`` is the row of each layer."""

    rows: Sequence[RowWork]
    layers: LayerWork
    machine: Machine
    row: IntArray
    count: FloatArray
    recomputed: FloatArray

    @classmethod
    def of(cls, rows: Sequence[RowWork]) -> Work:
        """Concatenate the rows."""
        joined = {
            field.name: np.concatenate([getattr(row.layers, field.name) for row in rows])
            for field in fields(LayerWork)
        }
        row = np.repeat(np.arange(len(rows)), [len(each.count) for each in rows])
        columns = zip(*(each.machine for each in rows), strict=True)
        machine = [np.array(column) for column in columns]
        return cls(
            rows,
            LayerWork(**joined),
            Machine(*machine),
            row,
            np.concatenate([each.count for each in rows]),
            np.concatenate([each.recomputed for each in rows]),
        )

    def numbers(self, name: str) -> FloatArray:
        """Return a field of all rows."""
        return np.array([getattr(row, name) for row in self.rows], dtype=float)

    def seconds(self, found: Mapping[str, FloatArray]) -> FloatArray:
        """Return the seconds of each row's step by constants that are given for each row."""
        plain = constants_from(found)
        values = {
            name: np.broadcast_to(np.asarray(getattr(plain, name), float), len(self.rows))
            for name in CONSTANTS
        }
        kept = np.where(self.numbers("throttled") > 0, values["throttle"], 1.0)
        # A board with fewer watts for its peak than the measured one runs at a lower clock.
        watts = np.minimum(1.0, self.numbers("power") / values["watts"])
        kept = kept * watts ** values["clock_power"]
        clocked = self.machine._replace(
            peak=self.machine.peak * kept, plain_peak=self.machine.plain_peak * kept
        )
        by_layer = Constants(**{name: each[self.row] for name, each in values.items()})  # type: ignore[arg-type]
        machine = Machine(*(np.asarray(column)[self.row] for column in clocked))
        times = self.layers.pass_times(by_layer, machine, self.numbers("batch")[self.row])
        forward = self._sum(times.forward * self.count)
        backward = self._sum(times.backward * self.count + times.forward * self.recomputed)
        kernels = self._sum(
            times.forward_kernels * (self.count + self.recomputed)
            + times.backward_kernels * self.count
        )
        first, each, last = np.array([row.beside for row in self.rows]).T
        rate = values["memory"] * self.machine.bandwidth
        copied = self.numbers("moved") * values["copies"]
        delayed = (copied + values["wire"] * (first + each)) / rate
        # Kernels queue ahead, so a pass takes the longer of its work and its launches.
        one = soft_maximum(forward + backward, kernels * values["launch"], _SHARPNESS) + delayed
        launches = values["launch"] * values["update_kernels"] * self.numbers("tensors")
        update = np.maximum(self.numbers("update") / rate, launches) + values["step"]
        beside = self.numbers("script") * values["script"] + self.numbers("copied")
        final = values["wire"] * last / rate + self.numbers("rest")
        return np.asarray(self.numbers("passes") * one + update + beside + final)

    def _sum(self, of_layers: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(self.row, of_layers, len(self.rows)), dtype=np.float64)


def _distinct(job: Job) -> tuple[LayerWork, FloatArray, FloatArray]:
    """Return the distinct layers, the number of each, and how many run twice."""
    model = job.model
    recompute = job.scenario.workload.recompute
    twice: BoolArray = np.zeros(len(model.layers), dtype=bool)
    if recompute is not None:
        twice = recompute.of(model).recomputed
    whole = LayerWork.of(model)
    names = [each.name for each in fields(LayerWork)]
    table = np.stack([np.asarray(getattr(whole, name), float) for name in names])
    # (fields, layers): layers are equal where all fields are.
    _, first, which = np.unique(table, axis=1, return_index=True, return_inverse=True)
    # The inverse along an axis has another shape in numpy 2.0 than in other versions.
    which = which.reshape(-1)
    picked = LayerWork(**{name: getattr(whole, name)[first] for name in names})
    count: FloatArray = np.bincount(which).astype(float)
    recomputed = np.bincount(which, twice.astype(float)).astype(float)
    return picked, count, recomputed

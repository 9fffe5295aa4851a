"""What rows ask of their GPUs and networks: the parts of a step that constants are fitted to.

The layers' shapes, the collectives' seconds and what of them stays exposed, as dpsim's own
scenario of each row has them. Layers that are alike stand once, with their number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from dpsim.base.arrays import BoolArray, FloatArray, IntArray
from dpsim.engine import Job, overlapped_bytes
from dpsim.workload import Shapes, TransformerEfficiency


@dataclass(frozen=True, eq=False)
class RowWork:
    """One row: layers that are alike once, ``count`` of them, ``again`` of them computed twice.

    Bytes communicated beside a forward pass, beside each backward pass, and what the last has more;
    ``moved`` bytes are copied in each pass. ``rest`` s of a step are the update's and what
    communication leaves exposed.
    """

    shapes: Shapes
    count: FloatArray
    again: FloatArray
    batch: int
    passes: int
    fp8: bool
    peak: float
    power: float | None
    bandwidth: float
    beside: tuple[float, float, float]
    moved: float
    rest: float
    generation: str
    execution: str
    kernels: str

    @classmethod
    def of(cls, job: Job, step: float) -> RowWork:
        """The work of a job with one kind of GPU, whose simulated step takes ``step`` s."""
        workload, (gpu, _) = job.scenario.workload, job.cluster.accelerators[0]
        shapes, count, again = _distinct(job)
        overlapped = overlapped_bytes(job)
        # Where only the last of several passes sends gradients, all other passes have the least.
        each = float(overlapped.backward.min())
        copied = job.scenario.strategy.aggregation.copied_bytes(job.model)
        times = job.times[0]
        return cls(
            shapes,
            count,
            again,
            workload.batch_per_gpu,
            workload.gradient_accumulation,
            workload.precision == "fp8",
            gpu.peak["bf16"].value,
            gpu.power.value if gpu.power else None,
            gpu.memory_bandwidth.value,
            (float(overlapped.forward.mean()), each, float(overlapped.backward.max()) - each),
            0.0 if job.silent else sum(copied),
            times.optimizer + step - times.step,
            gpu.architecture,
            workload.execution,
            workload.kernels,
        )


@dataclass(frozen=True, eq=False)
class Work:
    """All rows, the layers of one after those of the other; ``row`` says whose each layer is."""

    rows: Sequence[RowWork]
    shapes: Shapes
    row: IntArray
    count: FloatArray
    again: FloatArray

    @classmethod
    def of(cls, rows: Sequence[RowWork]) -> Work:
        """The rows side by side."""
        joined = {
            field.name: np.concatenate([getattr(row.shapes, field.name) for row in rows])
            for field in fields(Shapes)
        }
        lengths = [len(row.count) for row in rows]
        return cls(
            rows,
            Shapes(**joined),
            np.repeat(np.arange(len(rows)), lengths),
            np.concatenate([row.count for row in rows]),
            np.concatenate([row.again for row in rows]),
        )

    def numbers(self, name: str) -> FloatArray:
        """A field of all rows."""
        return np.array([getattr(row, name) for row in self.rows], dtype=float)

    def seconds(self, values: Mapping[str, FloatArray]) -> FloatArray:
        """Seconds of each row's step by constants that are given for each row."""
        fp8, peak, bandwidth = self.numbers("fp8"), self.numbers("peak"), self.numbers("bandwidth")
        watts = np.array([row.power or np.inf for row in self.rows]) / peak
        # A board with fewer watts for its peak than the measured one keeps less of its clock.
        clock = np.minimum(1.0, watts / values["watts"]) ** values["clock_power"]
        # From here on one number a layer; `_sum` brings them back to one a row.
        by_layer = {name: each[self.row] for name, each in values.items()}
        constants = TransformerEfficiency(**by_layer, measured_on="")  # type: ignore[arg-type]
        times = self.shapes.pass_times(
            constants,
            self.numbers("batch")[self.row],
            fp8[self.row] > 0,
            (peak * clock)[self.row],
            bandwidth[self.row],
        )
        forward = self._sum(times.forward * self.count)
        backward = self._sum(times.backward * self.count + times.forward * self.again)
        kernels = self._sum(
            times.forward_kernels * (self.count + self.again) + times.backward_kernels * self.count
        )
        first, each, last = np.array([row.beside for row in self.rows]).T
        rate = values["memory"] * bandwidth
        copied = self.numbers("moved") * values["copies"]
        delayed = (copied + values["wire"] * (first + each)) / rate
        # Kernels queue ahead: a pass takes what its work takes or its launches, whichever is more.
        one = np.maximum(forward + backward, kernels * values["launch"]) + delayed
        final = values["wire"] * last / rate
        return np.asarray(self.numbers("passes") * one + final + self.numbers("rest"))

    def _sum(self, of_layers: FloatArray) -> FloatArray:
        return np.asarray(np.bincount(self.row, of_layers, len(self.rows)), dtype=np.float64)


def _distinct(job: Job) -> tuple[Shapes, FloatArray, FloatArray]:
    """The layers that differ, how many there are of each, and how many run twice."""
    model = job.model
    recompute = job.scenario.workload.recompute
    twice: BoolArray = np.zeros(len(model.layers), dtype=bool)
    if recompute is not None:
        twice = recompute.of(model).again
    whole = Shapes.of(model)
    table = np.stack([np.asarray(getattr(whole, each.name), float) for each in fields(Shapes)])
    # (fields, layers): layers are alike where all fields are.
    _, first, which = np.unique(table, axis=1, return_index=True, return_inverse=True)
    # numpy 2.0 gives the inverse along an axis another shape than earlier and later ones.
    which = which.reshape(-1)
    picked = Shapes(**{each.name: getattr(whole, each.name)[first] for each in fields(Shapes)})
    count: FloatArray = np.bincount(which).astype(float)
    again = np.bincount(which, twice.astype(float)).astype(float)
    return picked, count, again

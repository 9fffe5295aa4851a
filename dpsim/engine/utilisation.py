"""What GPUs deliver: tokens per second, and the share of their peak that is.

The **model FLOP** of a sample are those of its matrix products, forward once and backward twice
that, whatever is computed again: 3 times the forward pass, less what frozen weights do not need.
For a decoder with N parameters outside tables that are only looked up, L blocks of width d and s
tokens they are (6 N + 12 L d s) s, full attention counted (Chowdhery et al., "PaLM", JMLR 24, 2023,
appendix B). Winograd's algorithm saves some of them in fp32 convolutions, and shares of the peak
are of the FLOP that are carried out. Of all GPUs,

    mfu = samples/s x (model FLOP - saved) / sum of peaks
    hfu = samples/s x (model FLOP - saved + what checkpointing computes again) / sum of peaks
    tflops_per_gpu = samples/s x (model FLOP - saved) / GPUs / 1e12

with the dense peak of the precision of the products. What one kernel computes again by itself, as
flash attention does in its backward pass, counts in neither.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.engine.gpu_times import accelerator, constants_on
from dpsim.engine.job import Job
from dpsim.hardware import Gpu
from dpsim.scenario import Scenario
from dpsim.topology import Cluster
from dpsim.workload import Model, saved_by_algorithms

_FORWARD_PASSES = 3  # forward, the gradient by the input, the gradient by the weights
_TERA = 1e12


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Tokens per second, and shares of the GPUs' peak; None where they cannot be known.

    ``saved_flop`` is the share of the model FLOP that need not be carried out.
    """

    tokens_per_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    mfu: float | None = None
    hfu: float | None = None
    tflops_per_gpu: float | None = None
    saved_flop: float | None = None

    @property
    def above_peak(self) -> str | None:
        """A warning where the GPUs would carry out more FLOP/s than their peak; None if not.

        No prediction does: times that were measured elsewhere may.
        """
        if self.hfu is None or self.hfu <= 1:
            return None
        return (
            f"the step needs {self.hfu:.0%} of the GPUs' peak, more than they have: check that the "
            "measured times are of this model, batch, precision and GPU"
        )


@dataclass(frozen=True, slots=True)
class Work:
    """What a sample is to the GPUs that compute it.

    ``tokens`` of a sample (None: no text); its ``model_flop``, and those carried out with what is
    computed again, ``hardware_flop`` (0: not known); ``peak`` FLOP/s of all ``gpus`` together (0:
    not known); ``saved_flop`` of the model FLOP.
    """

    tokens: int | None
    model_flop: float
    hardware_flop: float
    peak: float
    gpus: int
    saved_flop: float = 0.0

    def at(self, samples_per_s: float) -> Utilisation:
        """What so many samples per second of all GPUs are."""
        tokens = None if self.tokens is None else self.tokens * samples_per_s
        each = None if tokens is None else tokens / self.gpus
        if not self.model_flop:
            return Utilisation(tokens, each)
        flop_per_s = samples_per_s * (self.model_flop - self.saved_flop)
        tflops, saved = flop_per_s / self.gpus / _TERA, self.saved_flop / self.model_flop
        if not self.peak:
            return Utilisation(tokens, each, tflops_per_gpu=tflops, saved_flop=saved)
        again = samples_per_s * self.hardware_flop / self.peak
        return Utilisation(tokens, each, flop_per_s / self.peak, again, tflops, saved)


def model_flop(model: Model) -> float:
    """FLOP per sample of a step of ``model``, nothing computed twice."""
    return _in_passes(model, model.vector("forward_flop"))


def _in_passes(model: Model, forward: FloatArray) -> float:
    """The FLOP of forward and of what backward needs, of layers with these in ``forward``."""
    if model.trained == model.parameters:
        return _FORWARD_PASSES * float(forward.sum())
    stated, backward = model.vector("forward_flop"), model.vector("backward_flop")
    # What one kernel computes again by itself is more than two gradients.
    gradients = np.minimum(backward / np.maximum(stated, 1), _FORWARD_PASSES - 1)
    return float(((1 + gradients) * forward).sum())


def work(scenario: Scenario, model: Model, cluster: Cluster) -> Work:
    """What a sample of ``scenario`` is to the GPUs of its cluster."""
    precision, recompute = scenario.workload.precision, scenario.workload.recompute
    peaks = [count * _peak(gpu, precision) for gpu, count in cluster.accelerators]
    # One GPU without a peak in this precision leaves the sum unknown.
    total = sum(peaks) if all(peaks) else 0.0
    flop, forward = model_flop(model), _carried_out(scenario, model, cluster)
    again = 0.0 if recompute is None else float(recompute.of(model).seconds(forward).sum())
    saved = flop - _in_passes(model, forward)
    return Work(model.tokens, flop, flop - saved + again, total, cluster.ranks, saved)


def fastest_factors(job: Job) -> FloatArray:
    """Each worker's least factor on compute times: no jitter computes beyond the GPU's peak.

    It is 0 where FLOP or peaks are not known, and 1 where times are at the peak already.
    """
    scenario, cluster = job.scenario, job.cluster
    each = work(scenario, job.model, cluster).hardware_flop * scenario.workload.samples_per_gpu
    peaks = [_peak(gpu, scenario.workload.precision) for gpu, _ in cluster.accelerators]
    # GPUs of a cell share the FLOP of one worker.
    at_peak = [each / scenario.cell / peak if peak else 0.0 for peak in peaks]
    # Of the passes: the update is not always the workers' own.
    passes = [times.step - times.optimizer for times in job.times]
    shares = [
        least / seconds if seconds else 0.0 for least, seconds in zip(at_peak, passes, strict=True)
    ]
    return np.minimum(shares, 1.0)[job.kind_of]


def _carried_out(scenario: Scenario, model: Model, cluster: Cluster) -> FloatArray:
    """FLOP of each layer's forward pass per sample, less those that an algorithm saves.

    Of layers whose times were measured the algorithm is not known.
    """
    flop = model.vector("forward_flop")
    if model.measured is not None:
        return flop
    gpu, _ = cluster.accelerators[0]  # the algorithms are the library's, alike on all
    constants = constants_on(scenario, model, gpu)
    return np.asarray(flop / saved_by_algorithms(model, constants, scenario.workload.precision))


def _peak(gpu: Gpu, precision: str) -> float:
    """FLOP/s, 0 where the GPU has no such precision and its times were measured."""
    try:
        return accelerator(gpu).peak(precision)
    except DpsimError:
        return 0.0

"""GPU utilisation: tokens per second, and the share of the GPUs' peak.

The **model FLOP** of a sample count its matrix products: 3 times the forward pass, since backward
needs twice as many, minus the products that frozen weights save. Recomputation is not counted. For
a decoder with N parameters outside lookup tables, L blocks of width d and s tokens they are (6 N +
12 L d s) s, full attention counted (Chowdhery et al., "PaLM", JMLR 24, 2023, appendix B).
Winograd's algorithm saves some of them in fp32 convolutions, and shares of the peak refer to the
FLOP that are carried out. For all GPUs together,

    mfu = samples/s x (model FLOP - saved) / sum of peaks
    hfu = samples/s x (model FLOP - saved + what checkpointing computes again) / sum of peaks
    tflops_per_gpu = samples/s x (model FLOP - saved) / GPUs / 1e12

with the dense peak of the precision of the products. Recomputation inside one kernel, as in the
backward pass of flash attention, counts in neither.
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
from dpsim.workload import Model, flop_reduction

_FORWARD_PASSES = 3  # forward, the gradient by the input, the gradient by the weights
_TERA = 1e12


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Tokens per second, and shares of the GPUs' peak; None if they cannot be known.

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
        """A warning if the GPUs would exceed their peak FLOP/s, else None.

        Predictions never exceed it, but times that were measured elsewhere may.
        """
        if self.hfu is None or self.hfu <= 1:
            return None
        return (
            f"the step needs {self.hfu:.0%} of the GPUs' peak, more than they have: check that the "
            "measured times are of this model, batch, precision and GPU"
        )


@dataclass(frozen=True, slots=True)
class Work:
    """The work of one sample on the GPUs.

    ``tokens`` of a sample (None: no text); its ``model_flop``; ``hardware_flop``, those carried out
    including recomputation (0: not known); ``peak`` FLOP/s of all ``gpus`` together (0: not known);
    ``saved_flop`` of the model FLOP.
    """

    tokens: int | None
    model_flop: float
    hardware_flop: float
    peak: float
    gpus: int
    saved_flop: float = 0.0

    def at(self, samples_per_s: float) -> Utilisation:
        """Return the utilisation at ``samples_per_s`` of all GPUs."""
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
    """Return the FLOP per sample of a step of ``model``, without recomputation."""
    return _in_passes(model, model.vector("forward_flop"))


def _in_passes(model: Model, forward: FloatArray) -> float:
    """Return the forward and backward FLOP of layers with ``forward`` FLOP in forward."""
    if model.trained == model.parameters:
        return _FORWARD_PASSES * float(forward.sum())
    stated, backward = model.vector("forward_flop"), model.vector("backward_flop")
    # The minimum leaves out recomputation inside one kernel, beyond the two gradients.
    gradients = np.minimum(backward / np.maximum(stated, 1), _FORWARD_PASSES - 1)
    return float(((1 + gradients) * forward).sum())


def work(scenario: Scenario, model: Model, cluster: Cluster) -> Work:
    """Return the work of a sample of ``scenario`` on the GPUs of its cluster."""
    precision, recompute = scenario.workload.precision, scenario.workload.recompute
    peaks = [count * _peak(gpu, precision) for gpu, count in cluster.accelerators]
    # One GPU without a peak in this precision leaves the sum unknown.
    total = sum(peaks) if all(peaks) else 0.0
    flop, forward = model_flop(model), _carried_out(scenario, model, cluster)
    again = 0.0 if recompute is None else float(recompute.of(model).seconds(forward).sum())
    saved = flop - _in_passes(model, forward)
    return Work(model.tokens, flop, flop - saved + again, total, cluster.ranks, saved)


def fastest_factors(job: Job) -> FloatArray:
    """Return each worker's smallest factor on compute times: jitter never exceeds the GPU's peak.

    It is 0 if FLOP or peaks are not known, and 1 if times are at the peak already.
    """
    scenario, cluster = job.scenario, job.cluster
    each = work(scenario, job.model, cluster).hardware_flop * scenario.workload.samples_per_gpu
    peaks = [_peak(gpu, scenario.workload.precision) for gpu, _ in cluster.accelerators]
    # GPUs of a cell share the FLOP of one worker.
    at_peak = [each / scenario.cell / peak if peak else 0.0 for peak in peaks]
    # Passes only, because workers do not always do the update.
    passes = [times.step - times.optimizer for times in job.times]
    shares = [
        least / seconds if seconds else 0.0 for least, seconds in zip(at_peak, passes, strict=True)
    ]
    return np.minimum(shares, 1.0)[job.kind_of]


def _carried_out(scenario: Scenario, model: Model, cluster: Cluster) -> FloatArray:
    """Return the FLOP of each layer's forward pass per sample, less those an algorithm saves.

    The algorithm is not known for layers whose times were measured.
    """
    flop = model.vector("forward_flop")
    if model.measured is not None:
        return flop
    gpu, _ = cluster.accelerators[0]  # the library uses the same algorithms on all GPUs
    constants = constants_on(scenario, model, gpu)
    return np.asarray(flop / flop_reduction(model, constants, scenario.workload.precision))


def _peak(gpu: Gpu, precision: str) -> float:
    """Return the peak FLOP/s, or 0 if the GPU lacks the precision and its times were measured."""
    try:
        return accelerator(gpu).peak(precision)
    except DpsimError:
        return 0.0

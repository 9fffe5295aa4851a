"""What GPUs deliver: tokens per second, and the share of their peak that is.

The **model FLOP** of a sample are those of its matrix products, forward once and backward twice
that, whatever is computed again: 3 times the forward pass. For a decoder with N parameters outside
tables that are only looked up, L blocks of width d and s tokens they are (6 N + 12 L d s) s, full
attention counted (Chowdhery et al., "PaLM", JMLR 24, 2023, appendix B). Then, of all GPUs,

    mfu = samples/s x model FLOP / sum of peaks
    hfu = samples/s x (model FLOP + what checkpointing computes again) / sum of peaks
    tflops_per_gpu = samples/s x model FLOP / GPUs / 1e12

with the dense peak of the precision of the products. What one kernel computes again by itself, as
flash attention does in its backward pass, counts in neither.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsim.base.errors import DpsimError
from dpsim.engine.preparation import accelerator
from dpsim.hardware import Gpu
from dpsim.scenario import Scenario
from dpsim.topology import Cluster
from dpsim.workload import Model

_FORWARD_PASSES = 3  # forward, the gradient by the input, the gradient by the weights
_TERA = 1e12


@dataclass(frozen=True, slots=True)
class Utilisation:
    """Tokens per second, and shares of the GPUs' peak; None where they cannot be known."""

    tokens_per_s: float | None = None
    tokens_per_s_per_gpu: float | None = None
    mfu: float | None = None
    hfu: float | None = None
    tflops_per_gpu: float | None = None


@dataclass(frozen=True, slots=True)
class Work:
    """What a sample is to the GPUs that compute it.

    ``tokens`` of a sample (None: no text); its ``model_flop``, and with what is computed again its
    ``hardware_flop`` (0: not known); ``peak`` FLOP/s of all ``gpus`` together (0: not known).
    """

    tokens: int | None
    model_flop: float
    hardware_flop: float
    peak: float
    gpus: int

    def at(self, samples_per_s: float) -> Utilisation:
        """What so many samples per second of all GPUs are."""
        tokens = None if self.tokens is None else self.tokens * samples_per_s
        each = None if tokens is None else tokens / self.gpus
        if not self.model_flop:
            return Utilisation(tokens, each)
        flop_per_s = samples_per_s * self.model_flop
        tflops = flop_per_s / self.gpus / _TERA
        if not self.peak:
            return Utilisation(tokens, each, tflops_per_gpu=tflops)
        again = samples_per_s * self.hardware_flop / self.peak
        return Utilisation(tokens, each, flop_per_s / self.peak, again, tflops)


def model_flop(model: Model) -> float:
    """FLOP per sample of a step of ``model``, nothing computed twice."""
    return float(_FORWARD_PASSES * model.forward_flop)


def work(scenario: Scenario, model: Model, cluster: Cluster) -> Work:
    """What a sample of ``scenario`` is to the GPUs of its cluster."""
    precision, recompute = scenario.workload.precision, scenario.workload.recompute
    peaks = [count * _peak(gpu, precision) for gpu, count in cluster.accelerators]
    # One GPU without a peak in this precision leaves the sum unknown.
    total = sum(peaks) if all(peaks) else 0.0
    flop = model_flop(model)
    again = 0.0 if recompute is None else recompute.of(model).flop
    return Work(model.tokens, flop, flop + again, total, cluster.ranks)


def _peak(gpu: Gpu, precision: str) -> float:
    """FLOP/s, 0 where the GPU has no such precision and its times were measured."""
    try:
        return accelerator(gpu).peak(precision)
    except DpsimError:
        return 0.0

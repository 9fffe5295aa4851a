"""The software that trains a model, and its defaults.

Software affects the speed of training as much as a GPU's specification: by the launch of kernels,
the layout of images, and the number of kernels that update weights. A tier sets the other defaults:

- ``reference``: a research script of its time, such as the code of a paper;
- ``typical``: PyTorch as most people run it;
- ``tuned``: a vendor's example or a library for large models;
- ``mlperf``: a submission to MLPerf Training, tuned for one model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Tier = Literal["reference", "typical", "tuned", "mlperf"]
MemoryFormat = Literal["channels_first", "channels_last"]
Execution = Literal["eager", "compile", "graph", "cuda-graph"]
OptimizerKernels = Literal["loop", "foreach", "fused", "sharded"]
GradientStatistics = Literal["none", "each-tensor"]
CrossEntropy = Literal["full", "compiled", "chunked", "fused"]
Kernels = Literal["2022", "2023", "2023-cuda12", "2024"]


@dataclass(frozen=True, slots=True)
class Software:
    """The software of a workload, with all defaults filled in.

    ``memory_format``: layout of images. ``execution``: how kernels are launched.
    ``optimizer_kernels``: how weights are updated: tensor by tensor (``loop``), by kernels over
    many tensors (``foreach``), by one kernel over all (``fused``) or over a worker's share
    (``sharded``). ``kernels``: year of the framework's kernels for transformers. ``cross_entropy``:
    how the loss over a vocabulary is computed. ``gradient_statistics``: whether hooks compute
    statistics of each gradient tensor.
    """

    tier: Tier = "typical"
    memory_format: MemoryFormat = "channels_first"
    execution: Execution = "eager"
    optimizer_kernels: OptimizerKernels = "foreach"
    kernels: Kernels = "2024"
    cross_entropy: CrossEntropy = "full"
    gradient_statistics: GradientStatistics = "none"

    @property
    def is_eager(self) -> bool:
        """Whether the host launches the framework's own kernels one by one."""
        return self.execution in ("eager", "cuda-graph")


BY_TIER: Mapping[Tier, Software] = {
    "reference": Software("reference", optimizer_kernels="loop"),
    "typical": Software("typical"),
    "tuned": Software("tuned", "channels_last", optimizer_kernels="fused"),
    "mlperf": Software("mlperf", "channels_last", "cuda-graph", "sharded"),
}

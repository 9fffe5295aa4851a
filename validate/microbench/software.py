"""torch's settings for a scenario's software words: layout, execution, update kernels.

Words that a device or a method does not support are left out, which `omitted_words` reports.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from dpsim.workload import Software, is_in_8_bits
from validate.microbench.layerwise import Lamb, Lars
from validate.microbench.settings import Settings

_LEARNING_RATE = 1e-6  # so small that weights do not change

# The class of each, and its keyword arguments.
OPTIMIZER_CLASSES: dict[str, tuple[Any, dict[str, Any]]] = {
    "sgd": (torch.optim.SGD, {"lr": _LEARNING_RATE}),
    "momentum": (torch.optim.SGD, {"lr": _LEARNING_RATE, "momentum": 0.9}),
    "adam": (torch.optim.Adam, {"lr": _LEARNING_RATE}),
    "adamw": (torch.optim.AdamW, {"lr": _LEARNING_RATE}),
    # torch has none in 8 bits.
    "adam-8bit": (torch.optim.Adam, {"lr": _LEARNING_RATE}),
    "adamw-8bit": (torch.optim.AdamW, {"lr": _LEARNING_RATE}),
    "adagrad": (torch.optim.Adagrad, {"lr": _LEARNING_RATE}),
    "lars": (Lars, {"lr": _LEARNING_RATE}),
    "lamb": (Lamb, {"lr": _LEARNING_RATE}),
}
# torch's arguments for update kernels: a share of the weights is also updated by one.
_KERNELS = {
    "loop": {"foreach": False},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
    "sharded": {"fused": True},
}
_IMAGE_DIMENSIONS = 4  # dimensions of images, and of the weights of convolutions

Forward = Callable[..., Any]
Words = Software | Settings  # of a scenario, or of a microbenchmark


def laid_out(module: nn.Module, words: Words) -> nn.Module:
    """Return ``module`` with weights of convolutions in the layout of ``words``."""
    if words.memory_format == "channels_last":
        for parameter in module.parameters():
            if parameter.dim() == _IMAGE_DIMENSIONS:
                parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return module


def images(batch: Tensor, words: Words) -> Tensor:
    """Return ``batch`` in the same layout, if it is of images."""
    if words.memory_format == "channels_last" and batch.dim() == _IMAGE_DIMENSIONS:
        return batch.contiguous(memory_format=torch.channels_last)
    return batch


def apply_execution(forward: Forward, words: Words, *, graphs: bool) -> Forward:
    """Return ``forward`` for its execution mode; ``graphs``: CUDA graphs can be captured of it.

    ``graph`` is compiled as a whole and captured, ``cuda-graph`` captured kernel by kernel.
    """
    options: dict[str, Any] = {}
    if words.execution == "cuda-graph":
        options = {"backend": "cudagraphs"}
    elif words.execution == "graph" and graphs:
        options = {"mode": "reduce-overhead"}
    if words.execution == "eager" or (words.execution == "cuda-graph" and not graphs):
        return forward
    compiled: Forward = torch.compile(forward, **options)
    return compiled


def optimizer_words(name: str, words: Words) -> dict[str, Any]:
    """Return the kernel arguments of the optimiser ``name``, as far as torch has them."""
    if OPTIMIZER_CLASSES[name][0] in (Lars, Lamb):
        return {}
    return dict(_KERNELS[_kernels_here(name, words)])


def _kernels_here(name: str, words: Words) -> str:
    # Torch's fused Adagrad only exists for CPUs.
    fused = words.optimizer_kernels in ("fused", "sharded")
    return "foreach" if fused and name == "adagrad" else words.optimizer_kernels


def omitted_words(
    words: Words, optimizer: str, *, on_gpu: bool, divides: bool, flat: bool
) -> Iterator[str]:
    """Yield a sentence about each word that is not carried out as stated.

    ``divides``: FSDP2 shards the model; ``flat``: it is one vector, which the method updates.
    """
    graphs = words.execution in ("graph", "cuda-graph")
    if graphs and not on_gpu:
        yield (
            f"workload.execution {words.execution}: a processor has no CUDA graphs; kernels are "
            "called one by one"
        )
    elif graphs and divides:
        yield (
            f"workload.execution {words.execution}: no CUDA graph is captured under FSDP2, which "
            "moves weights"
        )
    if words.memory_format == "channels_last" and divides:
        yield (
            "workload.memory_format channels_last: of images alone, since FSDP2 divides contiguous "
            "weights"
        )
    if is_in_8_bits(optimizer):
        yield f"workload.optimizer {optimizer}: its state is kept in fp32 here"
    kernels = words.optimizer_kernels
    if OPTIMIZER_CLASSES[optimizer][0] in (Lars, Lamb):
        if kernels != "loop":
            yield f"workload.optimizer_kernels {kernels}: {optimizer} runs tensor by tensor here"
    elif _kernels_here(optimizer, words) != kernels:
        yield f"workload.optimizer_kernels {kernels}: torch has no fused {optimizer} for GPUs"
    elif kernels == "loop" and flat:
        yield (
            "workload.optimizer_kernels loop: the method holds all weights in one vector, which "
            "one kernel updates"
        )

"""The optimiser's step on a model's parameters, for each optimiser that scenarios know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from validate.microbench.benchmark import Benchmark, Row, Tick, seconds, timed
from validate.microbench.layerwise import Lamb, Lars
from validate.microbench.models import subject
from validate.microbench.settings import Settings
from validate.ranks.processes import World

_RATE = 1e-6  # so small that weights stay what they were

# The class of each, and what it is told beside its parameters.
OPTIMIZER_CLASSES: Mapping[str, tuple[Any, dict[str, float]]] = {
    "sgd": (torch.optim.SGD, {"lr": _RATE}),
    "momentum": (torch.optim.SGD, {"lr": _RATE, "momentum": 0.9}),
    "adam": (torch.optim.Adam, {"lr": _RATE}),
    "adamw": (torch.optim.AdamW, {"lr": _RATE}),
    "adagrad": (torch.optim.Adagrad, {"lr": _RATE}),
    "lars": (Lars, {"lr": _RATE}),
    "lamb": (Lamb, {"lr": _RATE}),
}


def optimizer_of(name: str, module: Any) -> Any:
    """A new one for all parameters of ``module``."""
    kind, settings = OPTIMIZER_CLASSES[name]
    return kind(module.parameters(), **settings)


def _rows(world: World, settings: Settings, tick: Tick) -> Iterator[Row]:
    measured = subject(settings)
    for name in settings.optimizers:
        module = measured.module(world.device)
        parameters = list(module.parameters())
        for parameter in parameters:
            # Any gradient does: an update takes the same time whatever the numbers are.
            parameter.grad = torch.ones_like(parameter)
        columns = timed(seconds(optimizer_of(name, module).step, world, settings))
        tick()
        elements = sum(parameter.numel() for parameter in parameters)
        counted = {"elements": elements, "tensors": len(parameters)}
        yield {
            "model": measured.name,
            "optimizer": name,
            **counted,
            **columns,
            "seconds_per_element": columns["time_s"] / elements,
        }


def _count(world: World, settings: Settings) -> int:
    return len(settings.optimizers)


OPTIMIZER = Benchmark(
    "optimizer", "the optimiser's step on a model's parameters", False, _rows, _count
)

"""The optimiser's step on a model's parameters, for each optimiser that scenarios know."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from validate.microbench.benchmark import Benchmark, Row, seconds, timed
from validate.microbench.models import subject
from validate.microbench.settings import Settings
from validate.microbench.software import OPTIMIZER_CLASSES, Words, optimizer_words
from validate.ranks.processes import World


def optimizer_of(name: str, module: Any, words: Words) -> Any:
    """Return a new one for all parameters of ``module``."""
    kind, settings = OPTIMIZER_CLASSES[name]
    return kind(module.parameters(), **settings, **optimizer_words(name, words))


def _rows(world: World, settings: Settings) -> Iterator[Row]:
    measured = subject(settings)
    for name in settings.optimizers:
        module = measured.module(world.device)
        parameters = list(module.parameters())
        for parameter in parameters:
            # Any gradient will do: the time of an update does not depend on the numbers.
            parameter.grad = torch.ones_like(parameter)
        columns = timed(seconds(optimizer_of(name, module, settings).step, world, settings))
        elements = sum(parameter.numel() for parameter in parameters)
        counted = {"elements": elements, "tensors": len(parameters)}
        yield {
            "model": measured.name,
            "optimizer": name,
            "kernels": settings.optimizer_kernels,
            **counted,
            **columns,
            "seconds_per_element": columns["time_s"] / elements,
        }


OPTIMIZER = Benchmark("optimizer", "the optimiser's step on a model's parameters", False, _rows)

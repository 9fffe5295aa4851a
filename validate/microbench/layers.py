"""Forward and backward seconds of each layer over batch sizes, and the update's.

They make a profile that scenarios can name. The proportions of layers in a pass are measured with
hooks, its length without them; a layer's time is its median share of the median pass. Layers are
those that ``dpsim import torch`` traces; the time of other modules (a flatten, say) counts with the
layer before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch

from dpsim.base.provenance import stamp
from dpsim.workload import MeasuredTimes, Model, ModelProfile, trace_module
from validate.microbench.benchmark import Benchmark, Row, seconds, time_columns, too_large
from validate.microbench.layer_clock import LayerClock, outputs_of
from validate.microbench.models import measured_here, subject
from validate.microbench.precision import computing_in
from validate.microbench.run_file import of_layers
from validate.microbench.settings import Settings
from validate.microbench.software import apply_execution
from validate.microbench.steps import UPDATE, optimizer_of, step_of
from validate.ranks.device import OUT_OF_MEMORY
from validate.ranks.processes import World
from validate.twins import Subject


def _rows(world: World, settings: Settings) -> Iterator[Row]:
    measured = subject(settings)
    model = trace_layers(measured)
    for number, batch_size in enumerate(settings.batch_sizes):
        try:
            row = _measure(measured, model, batch_size, world, settings)
        except OUT_OF_MEMORY:
            # Batch sizes rise, so later ones would not fit either.
            yield too_large(settings.batch_sizes[number:])
            return
        yield row


def trace_layers(measured: Subject) -> Model:
    """Return the layers of the model, traced on the meta device. Raises DpsimError if it fails."""
    with torch.device("meta"):
        module = measured.build()
    return trace_module(
        module.to("meta").train(), measured.shape, measured.name, dtype=measured.dtype
    )


def _measure(
    measured: Subject, model: Model, batch_size: int, world: World, settings: Settings
) -> Row:
    module, batch = measured_here(measured, batch_size, world, settings)
    eager = module.forward
    context = partial(computing_in, settings.precision, world.face)
    with context():
        module.forward = apply_execution(eager, settings, graphs=world.on_gpu)
        passes = _passes(module, batch, world, settings)
    # Hooks see no layers in compiled code: layers divide the pass in their uncompiled proportions.
    module.forward = eager
    clock = LayerClock(module, world.face, context)
    names = [layer.name for layer in model.layers]
    # The tracer attributes work outside all layers to the name of the model's class.
    root = type(module).__name__
    row: Row = {
        "model": measured.name,
        "layers": names,
        "batch_size": batch_size,
        "precision": settings.precision,
    }
    for way, shares_of in (("forward", clock.forward_shares), ("backward", clock.backward_shares)):
        shares = _shares(names, root, partial(shares_of, batch), settings)
        row[f"{way}_s"] = of_layers(shares, passes[f"{way}_pass_"]).tolist()
        row[f"{way}_shares"] = shares
    for prefix, times in passes.items():
        row |= {prefix + name: value for name, value in time_columns(times).items()}
    row["optimizer"] = UPDATE
    row["device"] = world.face.name
    return row


def _passes(module: Any, batch: Any, world: World, settings: Settings) -> dict[str, list[float]]:
    """Return the seconds of whole passes and updates, without hooks, by their columns' prefix.

    Passes that are waited for one by one take longer than in a step, where the host runs ahead of
    the device: all are scaled to add up to a whole step.
    """
    update = optimizer_of(UPDATE, module, settings)
    outputs: list[Any] = []
    gradients: list[Any] = []

    def prepare() -> None:
        module.zero_grad(set_to_none=True)
        outputs[:] = outputs_of(module, batch)
        gradients[:] = [torch.ones_like(output) for output in outputs]

    # The update comes last, since it uses the gradients left by the backward passes.
    apart = {
        "forward_pass_": seconds(lambda: module(batch), world, settings),
        "backward_pass_": seconds(
            lambda: torch.autograd.backward(outputs, gradients), world, settings, prepare
        ),
        "optimizer_": seconds(update.step, world, settings),
    }
    whole = seconds(partial(step_of, module, batch, update), world, settings)
    parts = sum(float(np.median(times)) for times in apart.values())
    # Limit the factor to 1, since a step's other work (clearing gradients) is not in its passes.
    factor = min(float(np.median(whole)) / parts, 1.0)
    inside = {name: [factor * each for each in times] for name, times in apart.items()}
    return {**inside, "step_": whole}


def _shares(
    names: Sequence[str], root: str, shares: Callable[[], dict[str, float]], settings: Settings
) -> list[list[float]]:
    """Return each layer's share of the pass in each repetition."""
    repetitions = [shares() for _ in range(settings.warmup + settings.iterations)]
    return [_by_layer(names, root, each) for each in repetitions[settings.warmup :]]


def _by_layer(names: Sequence[str], root: str, shares: dict[str, float]) -> list[float]:
    """Return shares in the order of ``names``.

    The share of a module that is no layer goes to the last layer before it.
    """
    by_layer = dict.fromkeys(names, 0.0)
    # Work before any layer counts with the first one.
    layer = names[0]
    for path, share in shares.items():
        name = path or root
        if name in by_layer:
            layer = name
        by_layer[layer] += share
    return list(by_layer.values())


def profile(rows: Sequence[Row], settings: Settings) -> ModelProfile:
    """Return the measured model's profile, as read by ``workload.model: {profile: file.json}``."""
    measured = subject(settings)
    rows = sorted(rows, key=lambda row: int(row["batch_size"]))
    times = MeasuredTimes(
        batch_sizes=tuple(row["batch_size"] for row in rows),
        forward_s=tuple(tuple(row["forward_s"]) for row in rows),
        backward_s=tuple(tuple(row["backward_s"]) for row in rows),
        optimizer_s=tuple(row["optimizer_time_s"] for row in rows),
        device=rows[0]["device"],
    )
    provenance = {
        "source": f"dpsim validate microbench layers --model {measured.name}",
        "torch": str(torch.__version__),
        **stamp(),
    }
    return ModelProfile.of(replace(trace_layers(measured), measured=times), provenance)


LAYERS = Benchmark(
    "layers",
    "forward and backward seconds of each layer over batch sizes",
    False,
    _rows,
)

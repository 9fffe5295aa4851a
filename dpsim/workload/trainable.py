"""Partly trained models: frozen weights, and adapters.

Backward of a frozen layer computes only the gradient by its input, and nothing before the first
trained weights. Only trained weights have gradients, are communicated, updated, and have optimiser
state. An adapter (LoRA) is two thin products beside a frozen one, with rank columns in between: Hu
et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Annotated, Literal

from pydantic import Field

from dpsim.base.config import Config
from dpsim.base.errors import DpsimError
from dpsim.workload.layer import Layer, Model

_ATTENTION = re.compile(r"attn|attention", re.IGNORECASE)
_PRODUCTS = ("conv", "linear")


class Adapters(Config):
    """Adapters of frozen products."""

    rank: int = Field(16, ge=1, le=65_536, description="Rank of the adapters.")
    on: Literal["attention", "all-linear"] = Field(
        "attention",
        description=(
            "Matrix products with an adapter. attention: the projections of attention; "
            "all-linear: all linear layers of the blocks."
        ),
    )


class LoraConfig(Config):
    """Only low-rank adapters are trained."""

    lora: Adapters


class FractionConfig(Config):
    """The last layers are trained."""

    fraction: float = Field(
        gt=0, le=1, description="At least this share of all weights, from the output backwards."
    )


Patterns = Annotated[tuple[str, ...], Field(min_length=1)]
Trainable = Literal["all"] | LoraConfig | FractionConfig | Patterns


def trained_in_part(model: Model, trainable: Trainable) -> Model:
    """Return ``model`` with all layers frozen that are not ``trainable``.

    Raises DpsimError if no layer would be trained, and for a model with measured times of
    layers, which are of a step that trains all.
    """
    if trainable == "all":
        return model
    if model.measured is not None:
        raise _problem("must be all for a model whose layers' times were measured")
    if isinstance(trainable, LoraConfig):
        return _with_adapters(model, trainable.lora)
    if isinstance(trainable, FractionConfig):
        return frozen(model, _last_layers(model, trainable.fraction))
    return frozen(model, _named(model, trainable))


def frozen(model: Model, trains: Sequence[bool]) -> Model:
    """Return ``model`` with the layers frozen that ``trains`` excludes; frozen ones stay frozen."""
    return replace(model, layers=tuple(_frozen(model.layers, trains, frozenset())))


def frozen_before(model: Model, name: str) -> Model:
    """Return ``model`` with all layers before the first whose name starts with ``name`` frozen."""
    first = next(at for at, layer in enumerate(model.layers) if layer.name.startswith(name))
    return frozen(model, [at >= first for at in range(len(model.layers))])


def _problem(rule: str) -> DpsimError:
    return DpsimError(f"workload.trainable: {rule}")


def _last_layers(model: Model, fraction: float) -> list[bool]:
    trains, wanted = [False] * len(model.layers), fraction * model.parameters
    for at in reversed(range(len(model.layers))):
        if wanted <= 0:
            break
        trains[at] = bool(model.layers[at].own_weights)
        wanted -= model.layers[at].own_weights
    return _with_tied(model, trains)


def _named(model: Model, patterns: Sequence[str]) -> list[bool]:
    """Return which layers match. Raises DpsimError for a pattern without a layer with weights."""
    trains = [False] * len(model.layers)
    for pattern in patterns:
        found = [
            at
            for at, layer in enumerate(model.layers)
            if layer.own_weights and fnmatchcase(layer.name, pattern)
        ]
        if not found:
            weighty = [layer.name for layer in model.layers if layer.own_weights]
            raise _problem(
                f"must be patterns of the model's layers ({weighty[0]} ... {weighty[-1]}), but "
                f"{pattern!r} matches none with weights"
            )
        for at in found:
            trains[at] = True
    return _with_tied(model, trains)


def _with_tied(model: Model, trains: Sequence[bool]) -> list[bool]:
    """Return the trained layers, and those that borrow a tensor from one."""
    pairs = list(zip(trains, model.layers, strict=True))
    lent = {elements for chosen, layer in pairs if chosen for elements in layer.parameters}
    return [chosen or layer.borrowed in lent for chosen, layer in pairs]


def _with_adapters(model: Model, adapters: Adapters) -> Model:
    """Freeze all layers, and add an adapter beside each selected product."""
    chosen = frozenset(
        at for at, layer in enumerate(model.layers) if _is_adapted(layer, adapters.on)
    )
    if not chosen:
        raise _problem(
            f"must be on linear layers that {model.name} has, but it has none ({adapters.on})"
        )
    nothing = [False] * len(model.layers)
    layers = _frozen(model.layers, nothing, chosen, rank=adapters.rank)
    return replace(model, layers=tuple(layers))


def _is_adapted(layer: Layer, on: str) -> bool:
    """Return whether a layer is a linear one of a block, or of its attention where requested."""
    if layer.kind != "linear" or layer.shape is None or layer.block is None:
        return False
    return on == "all-linear" or _ATTENTION.search(layer.name) is not None


def _frozen(
    layers: Sequence[Layer], trains: Sequence[bool], adapted: frozenset[int], rank: int = 0
) -> list[Layer]:
    """Freeze the layers that are not trained, and add adapters after the ``adapted`` ones."""
    found: list[Layer] = []
    learned = False  # whether any earlier weights are trained
    for at, layer in enumerate(layers):
        trained = trains[at] and not layer.frozen and _has_weights(layer)
        if not learned and (trained or at in adapted):
            _keep_input(found, layers[:at])
        if trained:
            # No earlier layer needs the gradient by the first one's input.
            found.append(layer if learned else _one_gradient(layer))
            learned = True
            continue
        idle = _unread(layers, trains, adapted, at)
        found.append(_passing_on(layer, idle) if learned else _without_backward(layer))
        if at in adapted:
            found += _adapter(layer, rank, learned)
            learned = True
    return found


def _keep_input(found: list[Layer], before: Sequence[Layer]) -> None:
    """Keep the input of the first trained layer, which the gradient by its weights needs."""
    for at in reversed(range(len(before))):
        if before[at].activations:
            found[at] = replace(found[at], activations=before[at].activations)
            return


def _passing_on(layer: Layer, idle: bool) -> Layer:
    """Return the frozen layer with only its input gradient; ``idle``: its output is not kept."""
    kept = 0 if idle else layer.activations
    if not _has_weights(layer):
        return replace(layer, activations=kept)
    if layer.kind == "embedding":
        return replace(layer, backward_traffic=0, activations=kept, frozen=True)
    return replace(_one_gradient(layer), activations=kept, frozen=True)


def _one_gradient(layer: Layer) -> Layer:
    """Return a product with one of its two gradients, each of which costs a forward."""
    if layer.kind not in _PRODUCTS or layer.backward_flop <= layer.forward_flop:
        return layer
    return replace(
        layer,
        backward_flop=layer.backward_flop - layer.forward_flop,
        backward_traffic=layer.backward_traffic // 2,
    )


def _without_backward(layer: Layer) -> Layer:
    weighty = _has_weights(layer)
    return replace(layer, backward_flop=0, backward_traffic=0, activations=0, frozen=weighty)


def _has_weights(layer: Layer) -> bool:
    """Return whether a layer has weights, its own or borrowed."""
    return bool(layer.parameters or layer.borrowed)


def _unread(
    layers: Sequence[Layer], trains: Sequence[bool], adapted: frozenset[int], at: int
) -> bool:
    """Return whether no backward pass reads a layer's output.

    Frozen products do not read it, nor does the layer itself if it is a norm, or a sum or product
    of several tensors, which reads its inputs.
    """
    layer = layers[at]
    combines = layer.kind == "elementwise" and layer.forward_traffic > 2 * layer.activations
    if layer.kind != "norm" and not combines:
        return False
    following = range(at + 1, len(layers))
    read_by = list(takewhile(lambda place: layers[place].kind in _PRODUCTS, following))
    return bool(read_by) and not any(trains[place] or place in adapted for place in read_by)


def _adapter(layer: Layer, rank: int, learned: bool) -> Iterator[Layer]:
    """Yield the two products of an adapter, and the sum with the frozen product's output."""
    assert layer.shape is not None
    rows, inner, columns = layer.shape
    leaving = rows * columns
    for part, before, after in (("A", inner, rank), ("B", rank, columns)):
        flop, moved = 2 * rows * before * after, rows * (before + after)
        gradients = 2 if learned or part == "B" else 1
        yield Layer(
            f"{layer.name}.lora_{part}",
            "linear",
            (before * after,),
            forward_flop=flop,
            backward_flop=gradients * flop,
            forward_traffic=moved,
            backward_traffic=gradients * moved,
            # The second product's gradient needs the output of the first.
            activations=rows * rank if part == "A" else 0,
            shape=(rows, before, after),
        )
    yield Layer(
        f"{layer.name}.lora_add",
        "elementwise",
        forward_traffic=3 * leaving,
        backward_traffic=3 * rows * inner,
    )

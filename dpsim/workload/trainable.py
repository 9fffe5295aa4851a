"""Partly trained models: frozen weights, and adapters.

A frozen layer's backward computes only the gradient by its input, and nothing before the first
trained weights. Only trained weights have gradients and optimiser state, and are communicated and
updated. An adapter (LoRA) is two thin products, of ``rank`` inner columns, parallel to a frozen
one: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models", ICLR 2022.
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

    Raises DpsimError if none would be trained, and for measured times, which trained all layers.
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
    """Return ``model`` with the layers frozen that ``trains`` excludes, or that were frozen."""
    return replace(model, layers=tuple(_frozen(model.layers, trains, frozenset())))


def frozen_before(model: Model, name: str) -> Model:
    """Return ``model`` with all layers frozen before the first whose name starts with ``name``."""
    first = next(index for index, layer in enumerate(model.layers) if layer.name.startswith(name))
    return frozen(model, [index >= first for index in range(len(model.layers))])


def _problem(rule: str) -> DpsimError:
    return DpsimError(f"workload.trainable: {rule}")


def _last_layers(model: Model, fraction: float) -> list[bool]:
    trains, remaining = [False] * len(model.layers), fraction * model.parameters
    for index in reversed(range(len(model.layers))):
        if remaining <= 0:
            break
        trains[index] = bool(model.layers[index].own_weights)
        remaining -= model.layers[index].own_weights
    return _with_tied(model, trains)


def _named(model: Model, patterns: Sequence[str]) -> list[bool]:
    """Return which layers match. Raises DpsimError for a pattern that matches no weights."""
    trains = [False] * len(model.layers)
    for pattern in patterns:
        found = [
            index
            for index, layer in enumerate(model.layers)
            if layer.own_weights and fnmatchcase(layer.name, pattern)
        ]
        if not found:
            weighted = [layer.name for layer in model.layers if layer.own_weights]
            raise _problem(
                f"must be patterns of the model's layers ({weighted[0]} ... {weighted[-1]}), but "
                f"{pattern!r} matches none with weights"
            )
        for index in found:
            trains[index] = True
    return _with_tied(model, trains)


def _with_tied(model: Model, trains: Sequence[bool]) -> list[bool]:
    """Add the layers that borrow a tensor of a trained layer."""
    pairs = list(zip(trains, model.layers, strict=True))
    shared = {elements for chosen, layer in pairs if chosen for elements in layer.parameters}
    return [chosen or layer.borrowed in shared for chosen, layer in pairs]


def _with_adapters(model: Model, adapters: Adapters) -> Model:
    """Freeze all layers, and add an adapter to each selected product."""
    chosen = frozenset(
        index for index, layer in enumerate(model.layers) if _is_adapted(layer, adapters.on)
    )
    if not chosen:
        raise _problem(
            f"must be on linear layers that {model.name} has, but it has none ({adapters.on})"
        )
    none_trained = [False] * len(model.layers)
    layers = _frozen(model.layers, none_trained, chosen, rank=adapters.rank)
    return replace(model, layers=tuple(layers))


def _is_adapted(layer: Layer, on: str) -> bool:
    """Return whether a layer is a linear layer of a block, or only of its attention."""
    if layer.kind != "linear" or layer.shape is None or layer.block is None:
        return False
    return on == "all-linear" or _ATTENTION.search(layer.name) is not None


def _frozen(
    layers: Sequence[Layer], trains: Sequence[bool], adapted: frozenset[int], rank: int = 0
) -> list[Layer]:
    """Freeze the layers that are not trained, and add adapters after the ``adapted`` ones."""
    found: list[Layer] = []
    learned = False  # whether any earlier weights are trained
    for index, layer in enumerate(layers):
        trained = trains[index] and not layer.frozen and _has_weights(layer)
        if not learned and (trained or index in adapted):
            _keep_input(found, layers[:index])
        if trained:
            # Of the first trained layer, no gradient by the input is needed.
            found.append(layer if learned else _with_one_gradient(layer))
            learned = True
            continue
        unread = _is_unread(layers, trains, adapted, index)
        found.append(_with_input_gradient(layer, unread) if learned else _without_backward(layer))
        if index in adapted:
            found += _adapter(layer, rank, learned)
            learned = True
    return found


def _keep_input(found: list[Layer], before: Sequence[Layer]) -> None:
    """Keep the input of the first trained layer, which the gradient by its weights needs."""
    for index in reversed(range(len(before))):
        if before[index].activations:
            found[index] = replace(found[index], activations=before[index].activations)
            return


def _with_input_gradient(layer: Layer, unread: bool) -> Layer:
    """Return a frozen layer with only its input gradient; an ``unread`` output is not kept."""
    kept = 0 if unread else layer.activations
    if not _has_weights(layer):
        return replace(layer, activations=kept)
    if layer.kind == "embedding":
        return replace(layer, backward_traffic=0, activations=kept, frozen=True)
    return replace(_with_one_gradient(layer), activations=kept, frozen=True)


def _with_one_gradient(layer: Layer) -> Layer:
    """Return a product with one of its two gradients, each of which costs a forward pass."""
    if layer.kind not in _PRODUCTS or layer.backward_flop <= layer.forward_flop:
        return layer
    return replace(
        layer,
        backward_flop=layer.backward_flop - layer.forward_flop,
        backward_traffic=layer.backward_traffic // 2,
    )


def _without_backward(layer: Layer) -> Layer:
    weighted = _has_weights(layer)
    return replace(layer, backward_flop=0, backward_traffic=0, activations=0, frozen=weighted)


def _has_weights(layer: Layer) -> bool:
    """Return whether a layer has weights, owned or borrowed."""
    return bool(layer.parameters or layer.borrowed)


def _is_unread(
    layers: Sequence[Layer], trains: Sequence[bool], adapted: frozenset[int], index: int
) -> bool:
    """Return whether no backward pass reads a layer's output.

    Frozen products do not. The layer itself does not if it is a norm, or a sum or product of
    several tensors, which reads its inputs.
    """
    layer = layers[index]
    reads_inputs = layer.kind == "elementwise" and layer.forward_traffic > 2 * layer.activations
    if layer.kind != "norm" and not reads_inputs:
        return False
    following = range(index + 1, len(layers))
    read_by = list(takewhile(lambda later: layers[later].kind in _PRODUCTS, following))
    return bool(read_by) and not any(trains[later] or later in adapted for later in read_by)


def _adapter(layer: Layer, rank: int, learned: bool) -> Iterator[Layer]:
    """Yield the two products of an adapter, and the sum with the frozen product."""
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
            # Needed by the gradient of B's weights.
            activations=rows * rank if part == "A" else 0,
            shape=(rows, before, after),
        )
    yield Layer(
        f"{layer.name}.lora_add",
        "elementwise",
        forward_traffic=3 * leaving,
        backward_traffic=3 * rows * inner,
    )

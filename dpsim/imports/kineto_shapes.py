"""Infer the kind, parameters and FLOP of an operator from the recorded shapes of its inputs.

FLOP are those of the whole batch.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from dpsim.imports.kineto_events import Dims, Event
from dpsim.workload import Kind


@dataclass(frozen=True, slots=True)
class Guess:
    """The inferred properties of a layer."""

    kind: Kind = "elementwise"
    parameters: tuple[int, ...] = ()
    flop: int = 0

    def merge(self, other: Guess) -> Guess:
        """Merge both into one layer, of the kind of the one with more FLOP, or with parameters."""
        heavier = max(self, other, key=lambda one: (one.flop, one.kind != "elementwise"))
        return Guess(heavier.kind, self.parameters + other.parameters, self.flop + other.flop)


def first_batch(operators: Iterable[Event]) -> int | None:
    """Return the first dimension of the input of the first layer.

    Only convolutions, linear layers and embeddings count.
    """
    for root in operators:
        for event in root.walk():
            dims = event.dims
            if (
                event.name in ("aten::conv2d", "aten::convolution", "aten::linear", "aten::addmm")
                and dims
            ):
                # The bias of addmm precedes its input.
                sides = dims[1] if event.name == "aten::addmm" and len(dims) > 1 else dims[0]
            elif event.name == "aten::embedding" and len(dims) > 1:
                sides = dims[1]
            else:
                continue
            if sides and sides[0] > 0:
                return sides[0]
    return None


def guess(root: Event) -> Guess:
    """Infer the properties of an outermost operator.

    If known operators are nested, only the outer one counts.
    """
    known = _KNOWN.get(root.name)
    found = known(root) if known else None
    if found is not None:
        return found
    total = Guess()
    for child in root.children:
        total = total.merge(guess(child))
    return total


def _positive(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape) for shape in shapes if shape and prod(shape) > 0)


def _at(dims: Dims, index: int) -> tuple[int, ...]:
    return dims[index] if index < len(dims) else ()


def _convolution(event: Event) -> Guess | None:
    """Infer a convolution from the arguments of ``aten::convolution``.

    They are (input, weight, bias, stride, padding, dilation, transposed, output_padding, groups).
    """
    entering, weight, bias = (_at(event.dims, index) for index in range(3))
    # A single image has one dimension fewer than the weight, and no batch.
    if len(weight) < 3 or len(entering) != len(weight):
        return None
    concrete = event.args.get("Concrete Inputs")
    sides = len(weight) - 2
    stride, padding, dilation = (_numbers(concrete, index, sides) for index in (3, 4, 5))
    # The formula of a window does not apply to a transposed convolution, which enlarges its output.
    flop = 0
    if stride and padding and dilation and _text(concrete, 6) != "True" and all(stride):
        out = [
            (size + 2 * pad - spread * (kernel - 1) - 1) // step + 1
            for size, pad, spread, kernel, step in zip(
                entering[2:], padding, dilation, weight[2:], stride, strict=True
            )
        ]
        # The weight has the input channels of one group, so groups need no special care.
        flop = max(0, 2 * entering[0] * prod(weight) * prod(out))
    return Guess("conv", _positive(weight, bias), flop)


def _linear(event: Event) -> Guess | None:
    """Infer ``aten::linear(input, weight, bias)``."""
    entering, weight, bias = (_at(event.dims, index) for index in range(3))
    return (
        Guess("linear", _positive(weight, bias), 2 * prod(entering[:-1]) * prod(weight))
        if len(weight) == 2
        else None
    )


def _addmm(event: Event) -> Guess | None:
    """Infer ``aten::addmm(bias, input, weight)``: a linear layer in some versions and models."""
    bias, left, right = (_at(event.dims, index) for index in range(3))
    if len(left) != 2 or len(right) != 2:
        return None
    return Guess("linear", _positive(right, bias), 2 * left[0] * prod(right))


def _products(event: Event) -> Guess | None:
    """Infer ``aten::bmm(left, right)``."""
    # Layers with weights fold the batch into rows: products that keep it are attention's.
    left, right = _at(event.dims, 0), _at(event.dims, 1)
    return (
        Guess("attention", (), 2 * prod(left) * right[-1]) if len(left) == len(right) == 3 else None
    )


def _norm(first: int) -> Callable[[Event], Guess | None]:
    """Return a function that infers a norm with weight and bias from input ``first`` on."""
    return lambda event: Guess(
        "norm", _positive(_at(event.dims, first), _at(event.dims, first + 1))
    )


def _embedding(event: Event) -> Guess | None:
    """Infer ``aten::embedding(weight, indices)``."""
    return Guess("embedding", _positive(_at(event.dims, 0))) if event.dims else None


def _pool(event: Event) -> Guess:
    return Guess("pool")


_KNOWN: dict[str, Callable[[Event], Guess | None]] = {
    "aten::convolution": _convolution,
    "aten::linear": _linear,
    "aten::addmm": _addmm,
    "aten::bmm": _products,
    # Between the input and the weight layer_norm has the normalised shape, group_norm the groups.
    "aten::batch_norm": _norm(1),
    "aten::layer_norm": _norm(2),
    "aten::native_layer_norm": _norm(2),
    "aten::group_norm": _norm(2),
    "aten::embedding": _embedding,
    "aten::max_pool2d": _pool,
    "aten::avg_pool2d": _pool,
    "aten::adaptive_avg_pool2d": _pool,
}


def _text(concrete: Any, index: int) -> str:
    return str(concrete[index]) if isinstance(concrete, list) and index < len(concrete) else ""


def _numbers(concrete: Any, index: int, count: int) -> list[int]:
    """Return a list of integers from text such as ``[1, 1]``.

    Empty if it does not have ``count`` integers.
    """
    try:
        value = json.loads(_text(concrete, index))
    except ValueError:
        return []
    # A single number applies to all dimensions.
    value = value * count if isinstance(value, list) and len(value) == 1 else value
    fits = (
        isinstance(value, list)
        and len(value) == count
        and all(isinstance(one, int) for one in value)
    )
    return value if fits else []

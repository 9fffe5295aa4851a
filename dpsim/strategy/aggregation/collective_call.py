"""What strategies meet through.

A call says what is communicated, what it waits for and what waits for it.

Both are positions in a step of L layers: 0 is its start, l + 1 the end of layer l's forward pass, 2
L - l the end of layer l's backward pass, so that 2 L is the end of the backward pass. The
optimiser's step comes after that and ends at 2 L + 1; 2 L + 1 + p is position p of the next step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from dpsim.workload import Model

# Bytes: gradients and the models that are averaged are kept in fp32, also under automatic mixed
# precision.
ELEMENT = 4

Payload = Literal["gradients", "models", "weights", "loss", "samples"]


@dataclass(frozen=True, slots=True)
class CollectiveCall:
    """A collective on ``nbytes`` that can start at position ``ready``; nothing past position
    ``needed`` starts before its end.

    Of the payloads, gradients are what overlap policies merge and order; gradients and whole models
    are what codecs compress.
    """

    name: str
    nbytes: int
    ready: int
    needed: int
    collective: str = "all-reduce"
    payload: Payload = "gradients"


def merged(name: str, calls: tuple[CollectiveCall, ...]) -> CollectiveCall:
    """One call with the payloads of all.

    It waits for the last of them, and is waited for where the first of them is.
    """
    (collective,) = {call.collective for call in calls}
    (payload,) = {call.payload for call in calls}
    ready, needed = max(call.ready for call in calls), min(call.needed for call in calls)
    return CollectiveCall(
        name, sum(call.nbytes for call in calls), ready, needed, collective, payload
    )


def gradients(model: Model, collective: str) -> tuple[CollectiveCall, ...]:
    """One call per parameter tensor, in the order in which the backward pass makes gradients
    ready.
    """
    tensors = model.tensors()
    end = 2 * len(model.layers)
    return tuple(
        CollectiveCall(
            f"tensor{index}",
            int(tensors.elements[index]) * ELEMENT,
            end - int(tensors.layer[index]),
            end,
            collective,
        )
        for index in np.arange(len(tensors.elements))[::-1]
    )


def whole_model(model: Model, collective: str) -> tuple[CollectiveCall, ...]:
    """All parameters after the optimiser's step: what is averaged where models meet, not gradients."""
    end = 2 * len(model.layers) + 1
    return (CollectiveCall("model", model.parameters * ELEMENT, end, end, collective, "models"),)

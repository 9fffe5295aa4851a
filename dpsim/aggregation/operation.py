"""What strategies meet through: an operation says what is communicated and which layer's backward pass makes it ready."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operation:
    """One payload of ``nbytes`` to communicate once the backward pass of layer ``after`` is done (layers in forward order)."""

    name: str
    after: int
    nbytes: int


def merged(name: str, operations: tuple[Operation, ...]) -> Operation:
    """One operation with the payloads of all: ready when the last of them is, which is the first layer's."""
    return Operation(name, min(op.after for op in operations), sum(op.nbytes for op in operations))

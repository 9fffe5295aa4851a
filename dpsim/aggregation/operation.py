"""What strategies meet through: an operation says what is communicated, what it waits for and what waits for it.

Both are positions in a step of L layers: 0 is its start, l + 1 the end of layer l's forward pass, 2 L - l the end of layer l's
backward pass, so that 2 L is the end of the backward pass. The optimiser's step comes after that; 2 L + 1 + p is position p of the
next step.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Operation:
    """A collective on ``nbytes`` that can start at position ``ready``; nothing past position ``needed`` starts before its end."""

    name: str
    nbytes: int
    ready: int
    needed: int
    collective: str = "all-reduce"


def merged(name: str, operations: tuple[Operation, ...]) -> Operation:
    """One operation with the payloads of all: it waits for the last of them, and is waited for where the first of them is."""
    (collective,) = {op.collective for op in operations}
    ready, needed = max(op.ready for op in operations), min(op.needed for op in operations)
    return Operation(name, sum(op.nbytes for op in operations), ready, needed, collective)

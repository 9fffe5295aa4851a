"""The collective calls of a step in a trace: their operations, bytes and times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod
from typing import Any

from dpsim.imports.kineto_events import Event
from dpsim.workload import MeasuredCollective

# torch's and C++'s names of element types, in lower case.
_ELEMENT_BYTES = {
    "double": 8, "long": 8, "long int": 8, "float": 4, "int": 4, "half": 2, "bfloat16": 2,
    "char": 1, "signed char": 1, "byte": 1, "unsigned char": 1, "bool": 1, "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}  # fmt: skip
_USUAL_BYTES = 4
_MARKS = ("nccl:", "gloo:")


def collectives_of(
    pairs: Iterable[tuple[Event, Event | None]], marks: Mapping[int, Event], zero: float
) -> list[MeasuredCollective]:
    """Return the calls of a step by start; ``pairs`` are kernels with their launching operators.

    ``marks`` has the mark of a kernel's call by the kernel's identity. Times count from ``zero``.
    """
    found = []
    for kernel, operator in sorted(pairs, key=lambda pair: pair[0].start):
        arguments = _arguments(kernel, operator, marks.get(id(kernel)))
        # Such as ncclDevKernel_AllReduce_Sum_f32_RING_LL.
        operation = (
            arguments.get("Collective name") or kernel.name.split("Kernel_")[-1].split("_")[0]
        )
        ranks = kernel.with_args(arguments).number("Group size")
        found.append(
            MeasuredCollective(
                operation=str(operation).lower(),
                payload_bytes=_payload(kernel.with_args(arguments)),
                ranks=ranks if ranks and ranks > 0 else None,
                start_s=kernel.start - zero,
                duration_s=kernel.seconds,
            )
        )
    return found


def _arguments(kernel: Event, operator: Event | None, mark: Event | None) -> dict[str, Any]:
    """Return the arguments of a call: its kernel's, else its operator's, else its mark's."""
    arguments: dict[str, Any] = {}
    around = [] if operator is None else operator.walk()
    for event in (mark, *around, kernel):
        if event is not None:
            arguments |= _shapes(event) | event.args
    return arguments


def _shapes(event: Event) -> dict[str, Any]:
    """Return a call's operation, number of elements and type from a mark's shapes."""
    if not event.name.startswith(_MARKS):
        return {}
    types = event.args.get("Input type")
    found = {
        "Collective name": event.name.partition(":")[2],
        "In msg nelems": sum(prod(sides) for sides in event.dims if sides),
        "dtype": str(types[0]) if isinstance(types, list) and types else "",
    }
    # Unknown values are left to other events.
    return {key: value for key, value in found.items() if value}


def _payload(call: Event) -> int:
    """Return the bytes of one rank's input; 0 if they are unknown."""
    # Such as c10::BFloat16.
    dtype = str(call.args.get("dtype")).rpartition("::")[2].lower()
    return max(call.number("In msg nelems") or 0, 0) * _ELEMENT_BYTES.get(dtype, _USUAL_BYTES)

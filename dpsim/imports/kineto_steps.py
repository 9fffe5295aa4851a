"""The training steps of a trace: the profiler's marks, the parts of each step, and its calls."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from dpsim.base.arrays import covered_seconds
from dpsim.base.errors import DpsimError
from dpsim.base.files import shown_path
from dpsim.imports.kineto_events import Event, Trace
from dpsim.workload import LongLayer, MeasuredCollective, MeasuredTimes, TracedStep

_LISTED_LAYERS = 10  # layers that are listed
_NUMBER = re.compile(r"\d{1,15}")
# torch's and C++'s names of element types, in lower case.
_ELEMENT_BYTES = {
    "double": 8, "long": 8, "long int": 8, "float": 4, "int": 4, "half": 2, "bfloat16": 2,
    "char": 1, "signed char": 1, "byte": 1, "unsigned char": 1, "bool": 1, "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}  # fmt: skip
_USUAL_BYTES = 4
_MARKS = ("nccl:", "gloo:")

Call = tuple[str, int]  # its group's ranks, as the trace has them; its index among their calls


def is_collective(event: Event) -> bool:
    """Return whether an event is an NCCL kernel, or a gloo thread's part of a collective."""
    return "nccl" in event.name.lower() or event.name.startswith("gloo:")


class StepMarks:
    """The profiler's step marks, by start; without marks the whole trace is one step."""

    def __init__(self, trace: Trace) -> None:
        # The profiler only writes them with a schedule.
        found = (mark for mark in trace.annotations if mark.name.startswith("ProfilerStep"))
        self.marks = sorted(found, key=lambda mark: mark.start)
        self._starts = np.array([mark.start for mark in self.marks])

    @property
    def count(self) -> int:
        """The number of steps, at least one."""
        return max(len(self.marks), 1)

    @property
    def numbers(self) -> list[int]:
        """The number in each mark, such as 7 in ``ProfilerStep#7``.

        Their indices, if a mark has none or several have the same.
        """
        matches = [_NUMBER.search(mark.name) for mark in self.marks]
        found = [int(number[0]) for number in matches if number]
        return found if len(set(found)) == self.count else list(range(self.count))

    def place(self, event: Event) -> int | None:
        """Return the step in which ``event`` began, None before the first and after the last."""
        if not self.marks:
            return 0
        index = int(np.searchsorted(self._starts, event.start, side="right")) - 1
        return index if index >= 0 and event.start <= self.marks[-1].end else None


@dataclass(slots=True)
class StepTimes:
    """The seconds of one rank in one step, and of each of its collectives."""

    step_s: float
    begin: float  # of its first kernel, on the trace's clock
    compute_s: float
    idle_s: float
    exposed_s: float  # collectives without concurrent computing
    communication_s: float  # in which at least one collective runs
    calls: dict[Call, float] = field(default_factory=dict)

    @property
    def busy_s(self) -> float:
        """The seconds in which a kernel runs."""
        return self.compute_s + self.exposed_s


def traced_step(
    steps: Sequence[StepTimes], names: Sequence[str], measured: MeasuredTimes, no_layer_s: float
) -> TracedStep:
    """Return where the time of ``steps`` went, with the layers of these names that take longest."""
    exposed, idle = (
        float(np.mean([getattr(step, name) for step in steps])) for name in ("exposed_s", "idle_s")
    )
    whole = float(np.mean([step.busy_s for step in steps])) + idle
    passes = zip(names, measured.forward_s[0], measured.backward_s[0], strict=True)
    layers = [
        LongLayer(
            name=name, forward_s=forward, backward_s=backward, share=(forward + backward) / whole
        )
        for name, forward, backward in passes
    ]
    layers.sort(key=lambda layer: -layer.share)
    return TracedStep(
        step_s=whole,
        longest=tuple(layers[:_LISTED_LAYERS]),
        other_layers_s=sum(layer.forward_s + layer.backward_s for layer in layers[_LISTED_LAYERS:]),
        optimizer_s=measured.optimizer() or 0.0,
        no_layer_s=no_layer_s,
        exposed_s=exposed,
        idle_s=idle,
    )


def step_times(trace: Trace, path: Path) -> dict[int, StepTimes]:
    """Return each step of a trace by its number. Raises DpsimError for a step without computing."""
    marks = StepMarks(trace)
    kernels: list[list[Event]] = [[] for _ in range(marks.count)]
    calls: list[list[tuple[Event, Event | None]]] = [[] for _ in range(marks.count)]
    on_host = (*trace.operators, *filter(is_collective, trace.annotations))
    work = list(trace.kernels) or [(event, event) for event in on_host]
    for kernel, operator in work:
        # By the time of the launch: on the GPU it may run after the host has begun the next step.
        step = marks.place(operator or kernel)
        if step is not None and is_collective(kernel):
            calls[step].append((kernel, operator))
        elif step is not None:
            kernels[step].append(kernel)

    times_of = {}
    for step, number in enumerate(marks.numbers):
        computing = _busy(kernels[step])
        if not computing:
            raise DpsimError(
                f"{shown_path(path)}: step {number} must have kernels that compute, but has none"
            )
        everything = kernels[step] + [kernel for kernel, _ in calls[step]]
        first = min(event.start for event in everything)
        extent = max(event.end for event in everything) - first
        seconds = marks.marks[step].seconds if marks.marks else extent
        busy = _busy(everything)
        # Kernels may continue after the host has ended the step's mark.
        idle = max(0.0, seconds - busy)
        times_of[number] = StepTimes(
            seconds,
            first,
            computing,
            idle,
            busy - computing,
            _busy(kernel for kernel, _ in calls[step]),
            _calls(calls[step]),
        )
    return times_of


def _busy(events: Iterable[Event]) -> float:
    """Return the seconds in which at least one of the events runs."""
    return covered_seconds((event.start, event.end) for event in events)


def _calls(pairs: Iterable[tuple[Event, Event | None]]) -> dict[Call, float]:
    """Return the seconds of each collective of a step.

    All ranks of a group make the same calls in the same order, so that the index identifies a call.
    """
    counts: dict[str, int] = defaultdict(int)
    seconds_of = {}
    for kernel, operator in sorted(pairs, key=lambda pair: pair[0].start):
        arguments = {**(operator.args if operator else {}), **kernel.args}
        group = str(arguments.get("Process Group Ranks", ""))
        seconds_of[group, counts[group]] = kernel.seconds
        counts[group] += 1
    return seconds_of


def collectives_of(
    pairs: Iterable[tuple[Event, Event | None]], marks: Mapping[int, Event], zero: float
) -> list[MeasuredCollective]:
    """Return the calls of a step by start; ``pairs`` are kernels with their launching operators.

    ``marks`` has the mark of a kernel's call by the kernel's identity. Times count from ``zero``.
    """
    calls = []
    for kernel, operator in sorted(pairs, key=lambda pair: pair[0].start):
        arguments = _arguments(kernel, operator, marks.get(id(kernel)))
        # Such as ncclDevKernel_AllReduce_Sum_f32_RING_LL.
        operation = (
            arguments.get("Collective name") or kernel.name.split("Kernel_")[-1].split("_")[0]
        )
        ranks = kernel.with_args(arguments).number("Group size")
        calls.append(
            MeasuredCollective(
                operation=str(operation).lower(),
                payload_bytes=_payload(kernel.with_args(arguments)),
                ranks=ranks if ranks and ranks > 0 else None,
                start_s=kernel.start - zero,
                duration_s=kernel.seconds,
            )
        )
    return calls


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

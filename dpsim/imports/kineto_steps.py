"""The training steps of a trace: the profiler's marks, and which of them an event is in."""

from __future__ import annotations

import re

import numpy as np

from dpsim.imports.kineto_events import Event, Trace

_NUMBER = re.compile(r"\d{1,15}")


def is_collective(event: Event) -> bool:
    """Whether it is a kernel, or without a GPU an operator, of a communication library."""
    name = event.name.lower()
    return "nccl" in name or name.startswith(("gloo:", "c10d::"))


class StepMarks:
    """The profiler's marks of steps, by start; without marks the whole trace is one step."""

    def __init__(self, trace: Trace) -> None:
        # The profiler writes them only under a schedule.
        found = (mark for mark in trace.annotations if mark.name.startswith("ProfilerStep"))
        self.marks = sorted(found, key=lambda mark: mark.start)
        self._starts = np.array([mark.start for mark in self.marks])

    @property
    def count(self) -> int:
        """How many steps there are, at least one."""
        return max(len(self.marks), 1)

    @property
    def numbers(self) -> list[int]:
        """The number that each mark names, such as 7 of ``ProfilerStep#7``.

        Their places, where one names none or several the same.
        """
        said = [_NUMBER.search(mark.name) for mark in self.marks]
        found = [int(number[0]) for number in said if number]
        return found if len(set(found)) == self.count else list(range(self.count))

    def place(self, event: Event) -> int | None:
        """The step in which ``event`` began, or None for one before the first or after the last."""
        if not self.marks:
            return 0
        index = int(np.searchsorted(self._starts, event.start, side="right")) - 1
        return index if index >= 0 and event.start <= self.marks[-1].end else None

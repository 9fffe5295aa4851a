"""A profile of Nsight Systems as what a trace of PyTorch's profiler gives.

Kernels belong to the NVTX range around their launch. ``torch.autograd.profiler.emit_nvtx`` marks
each operator with its sequence number, by which backward kernels find their layer: then there is a
layer profile. Shares of a step need no more than kernels.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.base.files import shown_path
from dpsim.imports.kineto import build_profile
from dpsim.imports.kineto_events import Event, Trace, innermost, nested
from dpsim.imports.kineto_steps import StepMarks, StepTimes, step_times
from dpsim.imports.nsys_tables import NsysTables, read_nsys
from dpsim.imports.reading import ImportFileError
from dpsim.workload import ModelProfile

_STEP = re.compile(r"(profiler|train[ _]?)?(step|iter(ation)?)[ _#:]*\d{1,9}", re.IGNORECASE)
# NAME, seq = 5, op_id = 7, sizes = [[4, 3], []], as emit_nvtx calls its ranges.
_OPERATOR = re.compile(r"(?P<name>[^,]+)(, seq = (?P<seq>-?\d{1,15}))?(, op_id = \d+)?")
_SIZES = re.compile(r", sizes = (\[[\[\]\d, ]*\])")
_SHAPE = re.compile(r"\[([\d, ]*)\]")
_OF_TORCH = ("aten::", "autograd::engine::evaluate_function: ")
_COPIES = {1: "host to device", 2: "device to host", 8: "device to device", 10: "peer to peer"}


@dataclass(frozen=True, slots=True)
class NsysStep:
    """Seconds of one step: of it the GPU computes, sends what nothing hides, or is idle.

    ``collectives_s`` are all kernels of collectives, hidden or not; ``copies_s`` those of memory by
    direction, which run beside kernels.
    """

    step: int
    step_s: float
    compute_s: float
    collectives_s: float
    exposed_s: float
    idle_s: float
    copies_s: dict[str, float]


@dataclass(frozen=True, slots=True)
class NsysReport:
    """What a profile says: its steps, and of the layers a profile or why there is none."""

    steps: tuple[NsysStep, ...]
    device: str
    profile: ModelProfile | None
    why_none: str
    notes: tuple[str, ...]


def read_nsys_profile(
    path: Path, *, batch: int | None = None, name: str | None = None, steps: str | None = None
) -> NsysReport:
    """The steps and the layers of an SQLite export of nsys.

    ``steps``: how the names of NVTX ranges around steps begin; else such as ``step 7``. Raises
    DpsimError, beginning with the path, where it has no kernels.
    """
    tables, notes = _one_process(read_nsys(path))
    if not tables.kernels:
        raise DpsimError(f"{shown_path(path)}: CUPTI_ACTIVITY_KIND_KERNEL: must have rows")
    trace = _trace(tables, steps)
    marks = StepMarks(trace)
    if not marks.marks:
        notes.append("assumed: one step, since no NVTX ranges mark steps: --steps PREFIX")
    copies = _copies(tables, marks)
    found = tuple(
        _step(number, taken, copies[place])
        for place, (number, taken) in enumerate(step_times(trace, path).items())
    )
    profile, why_none = _profile(trace, batch, name or path.name.split(".")[0], path.name)
    return NsysReport(found, tables.device, profile, why_none, tuple(notes))


def _one_process(tables: NsysTables) -> tuple[NsysTables, list[str]]:
    """The rows of the process whose kernels ran longest, and a note where there are others."""
    spent: Counter[int] = Counter()
    for row in tables.kernels:
        spent[row["process"]] += row["end"] - row["start"]
    if len(spent) < 2:
        return tables, []
    # Steps of several processes overlap: those of one are a rank's.
    kept = max(spent, key=lambda process: spent[process])
    parts = (tables.kernels, tables.launches, tables.copies, tables.ranges)
    kernels, launches, copies, ranges = (
        [row for row in rows if row["process"] == kept] for rows in parts
    )
    note = f"ignored: {len(spent) - 1} other processes: that whose kernels ran longest counts"
    return NsysTables(kernels, launches, copies, ranges, tables.device), [note]


def _trace(tables: NsysTables, steps: str | None) -> Trace:
    """The operators, kernels and marks in the form of a trace of PyTorch's profiler."""
    operators, marks = _ranges(tables.ranges, steps)
    roots = nested(operators)
    # The host launches and the GPU runs later: only launches lie inside the operators' ranges.
    launched: dict[Any, Event] = {row["correlationId"]: _event(row, "") for row in tables.launches}
    around = innermost(operators, launched.values())
    kernels = []
    for row in tables.kernels:
        launch = launched.get(row["correlationId"])
        # Where no operator is around it, the launch still tells the step.
        by = None if launch is None else around.get(id(launch), launch)
        kernels.append((_event(row, row["name"]), by))
    return Trace(tuple(roots), tuple(kernels), tuple(marks), (), tables.device)


def _ranges(rows: Iterable[dict[str, Any]], steps: str | None) -> tuple[list[Event], list[Event]]:
    """The NVTX ranges of torch's operators, and the marks of steps and of optimisers."""
    operators: list[Event] = []
    marks: list[Event] = []
    for row in rows:
        name = row["name"]
        is_step = _STEP.fullmatch(name) if steps is None else name.startswith(steps)
        if is_step and row["end"] > row["start"]:
            number = re.search(r"\d{1,9}", name)
            said = number[0] if number else len(marks)
            marks.append(_event(row, f"ProfilerStep#{said}"))
        elif name.startswith("Optimizer."):
            marks.append(_event(row, name))
        elif name.startswith(_OF_TORCH):
            operators.append(_operator(row))
    return operators, marks


def _event(row: dict[str, Any], name: str) -> Event:
    return Event(name, "", row["start"], row["end"], row.get("globalTid"), {})


def _operator(row: dict[str, Any]) -> Event:
    """An operator with the sequence number and shapes that its range's name holds."""
    found = _OPERATOR.match(row["name"])
    event = _event(row, found["name"] if found else row["name"])
    if found and found["seq"] is not None:
        event.args["Sequence number"] = int(found["seq"])
    if sizes := _SIZES.search(row["name"]):
        shapes = _SHAPE.findall(sizes[1][1:-1])
        event.args["Input Dims"] = [_sides(shape) for shape in shapes]
    return event


def _sides(shape: str) -> list[int]:
    sides = [side.strip() for side in shape.split(",")]
    # Text of a stranger's file: what has more digits is no side of a tensor.
    return [int(side) for side in sides if 0 < len(side) < 16]


def _copies(tables: NsysTables, marks: StepMarks) -> list[Counter[str]]:
    """Seconds of copies of memory in each step, by direction."""
    found: list[Counter[str]] = [Counter() for _ in range(marks.count)]
    for row in tables.copies:
        place = marks.place(_event(row, ""))
        if place is not None:
            direction = _COPIES.get(row["copyKind"], "other")
            found[place][direction] += row["end"] - row["start"]
    return found


def _step(number: int, taken: StepTimes, copies: Counter[str]) -> NsysStep:
    return NsysStep(
        number,
        taken.step_s,
        taken.compute_s,
        sum(taken.calls.values()),
        taken.exposed_s,
        taken.idle_s,
        dict(sorted(copies.items())),
    )


def _profile(
    trace: Trace, batch: int | None, name: str, file: str
) -> tuple[ModelProfile | None, str]:
    """The layers' profile, or why there is none."""
    if not trace.operators:
        return None, (
            "no NVTX ranges of torch's operators: train under torch.autograd.profiler.emit_nvtx("
            "record_shapes=True)"
        )
    try:
        found = build_profile(trace, batch=batch, name=name)
    except ImportFileError as problem:
        return None, problem.message
    provenance = {**found.provenance, "source": f"dpsim import nsys {file}"}
    notes = found.notes
    if any(layer.kind == "conv" and not layer.forward_flop for layer in found.layers):
        notes = (*notes, "ignored: FLOP of convolutions, since NVTX ranges hold no strides")
    return found.model_copy(update={"provenance": provenance, "notes": notes}), ""

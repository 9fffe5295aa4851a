"""Read a profile of Nsight Systems in the form of a trace of PyTorch's profiler.

Kernels belong to the NVTX range around their launch. ``torch.autograd.profiler.emit_nvtx`` marks
each operator with its sequence number, by which backward kernels find their layer; this gives a
layer profile. The parts of a step only need kernels.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from sys import intern
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.base.files import shown_path
from dpsim.imports.kineto import build_profile
from dpsim.imports.kineto_events import Event, Trace, innermost, nest
from dpsim.imports.kineto_steps import StepMarks, StepTimes, step_times
from dpsim.imports.nsys_tables import (
    COPIES,
    KERNELS,
    LAUNCHES,
    MOST_ROWS,
    RANGES,
    NsysTables,
    open_nsys,
)
from dpsim.imports.reading import ImportFileError
from dpsim.workload import ModelProfile

_STEP = re.compile(r"(profiler|train[ _]?)?(step|iter(ation)?)[ _#:]*\d{1,9}", re.IGNORECASE)
# NAME, seq = 5, op_id = 7, sizes = [[4, 3], []], the names of emit_nvtx's ranges.
_OPERATOR = re.compile(r"(?P<name>[^,]+)(, seq = (?P<seq>-?\d{1,15}))?(, op_id = \d+)?")
_SIZES = re.compile(r", sizes = (\[[\[\]\d, ]*\])")
_SHAPE = re.compile(r"\[([\d, ]*)\]")
_OF_TORCH = ("aten::", "autograd::engine::evaluate_function: ")
# Many small events share the same empty mapping and list.
_NOTHING: dict[str, Any] = {}
_NONE: list[Event] = []
_COPIES = {1: "host to device", 2: "device to host", 8: "device to device", 10: "peer to peer"}


@dataclass(frozen=True, slots=True)
class NsysStep:
    """The seconds of one step: computing, exposed communication, and idle.

    ``collectives_s`` are all kernels of collectives, overlapped or not; ``copies_s`` are copies of
    memory by direction, which run beside kernels.
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
    """The content of a profile: its steps, and a layer profile or why there is none."""

    steps: tuple[NsysStep, ...]
    device: str
    profile: ModelProfile | None
    why_none: str
    notes: tuple[str, ...]


def read_nsys_profile(
    path: Path, *, batch: int | None = None, steps: str | None = None
) -> NsysReport:
    """Read the steps and the layers of an SQLite export of nsys.

    ``steps``: the prefix of NVTX ranges around steps; by default names such as ``step 7``. Raises
    DpsimError, beginning with the path, if there are no kernels.
    """
    with open_nsys(path) as tables:
        process, notes = _busiest(tables)
        try:
            trace = _trace(tables, process, steps)
        except ImportFileError as problem:
            raise problem.of(path) from None
        copied = [
            _event(row, _COPIES.get(row["copyKind"], "other"))
            for row in _of(process, tables, COPIES)
        ]
    marks = StepMarks(trace)
    if not marks.marks:
        notes.append("assumed: one step, since no NVTX ranges mark steps: --steps PREFIX")
    copies = _copies(copied, marks)
    per_step = tuple(
        _step(number, taken, copies[place])
        for place, (number, taken) in enumerate(step_times(trace, path).items())
    )
    profile, why_none = _profile(trace, batch, path.name.split(".")[0], path.name)
    return NsysReport(per_step, trace.device, profile, why_none, tuple(notes))


def _busiest(tables: NsysTables) -> tuple[int | None, list[str]]:
    """Return the process whose kernels ran longest, and a note if there are others."""
    spent: Counter[int | None] = Counter()
    for row in tables.rows(KERNELS):
        spent[row["process"]] += row["end"] - row["start"]
    if not spent:
        raise DpsimError(f"{shown_path(tables.path)}: {KERNELS}: must have rows")
    # Steps of several processes overlap; one process is one rank.
    kept = max(spent, key=lambda process: spent[process])
    others = len(spent) - 1
    note = f"ignored: {others} other processes: that whose kernels ran longest counts"
    return kept, [note] if others else []


def _of(process: int | None, tables: NsysTables, table: str) -> Iterator[dict[str, Any]]:
    """Yield the rows of a process, at most `MOST_ROWS`, since they are held in memory."""
    found = (row for row in tables.rows(table) if row["process"] == process)
    for number, row in enumerate(found, 1):
        if number > MOST_ROWS:
            raise DpsimError(
                f"{shown_path(tables.path)}: {table}: must have at most {MOST_ROWS:,} rows of a "
                "process: profile fewer steps"
            )
        yield row


def _trace(tables: NsysTables, process: int | None, steps: str | None) -> Trace:
    """Return operators, kernels and marks in the form of a trace of PyTorch's profiler."""
    ran = [
        (_event(row, intern(row["name"])), row["correlationId"])
        for row in _of(process, tables, KERNELS)
    ]
    called = {call for _, call in ran}
    # The host launches and the GPU runs later: only launches are inside the operators' ranges.
    launched = {
        row["correlationId"]: _event(row, "")
        for row in tables.rows(LAUNCHES)
        if row["process"] == process and row["correlationId"] in called
    }
    operators, marks = _ranges(_of(process, tables, RANGES), steps)
    around = innermost(operators, launched.values())
    kernels = []
    for kernel, call in ran:
        launch = launched.get(call)
        # Without an operator around it, the launch still determines the step.
        by = None if launch is None else around.get(id(launch), launch)
        kernels.append((kernel, by))
    return Trace(tuple(nest(operators)), tuple(kernels), tuple(marks), (), tables.device)


def _ranges(rows: Iterable[dict[str, Any]], steps: str | None) -> tuple[list[Event], list[Event]]:
    """Return the NVTX ranges of torch's operators, and the marks of steps and of optimisers."""
    operators: list[Event] = []
    marks: list[Event] = []
    for row in rows:
        name = row["name"]
        is_step = _STEP.fullmatch(name) if steps is None else name.startswith(steps)
        if is_step and row["end"] > row["start"]:
            number = re.search(r"\d{1,9}", name)
            step = number[0] if number else len(marks)
            marks.append(_event(row, f"ProfilerStep#{step}"))
        elif name.startswith("Optimizer."):
            marks.append(_event(row, name))
        elif name.startswith(_OF_TORCH):
            operators.append(_operator(row))
    return operators, marks


def _event(row: dict[str, Any], name: str) -> Event:
    """Return a kernel, launch, copy or mark, without arguments and children."""
    return Event(name, "", row["start"], row["end"], row.get("globalTid"), _NOTHING, None, _NONE)


def _operator(row: dict[str, Any]) -> Event:
    """Return an operator with the sequence number and shapes in its range's name."""
    found = _OPERATOR.match(row["name"])
    name = intern(found["name"] if found else row["name"])
    args: dict[str, Any] = {}
    if found and found["seq"] is not None:
        args["Sequence number"] = int(found["seq"])
    if sizes := _SIZES.search(row["name"]):
        args["Input Dims"] = _dims(sizes[1])
    return Event(name, "", row["start"], row["end"], row["globalTid"], args)


@lru_cache(maxsize=1024)
def _dims(text: str) -> list[list[int]]:
    """Return the shapes in a text, cached since profiles repeat them."""
    return [_sides(shape) for shape in _SHAPE.findall(text[1:-1])]


def _sides(shape: str) -> list[int]:
    sides = [side.strip() for side in shape.split(",")]
    # From an untrusted file: numbers with more digits are not tensor dimensions.
    return [int(side) for side in sides if 0 < len(side) < 16]


def _copies(copies: Iterable[Event], marks: StepMarks) -> list[dict[str, float]]:
    """Return the seconds of memory copies in each step, by direction."""
    seconds_of: list[dict[str, float]] = [defaultdict(float) for _ in range(marks.count)]
    for copy in copies:
        step = marks.place(copy)
        if step is not None:
            seconds_of[step][copy.name] += copy.seconds
    return seconds_of


def _step(number: int, taken: StepTimes, copies: dict[str, float]) -> NsysStep:
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
    """Return the layers' profile, or the reason why there is none."""
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

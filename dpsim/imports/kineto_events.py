"""Parse the Chrome trace that PyTorch's profiler (Kineto) exports.

It yields operators as trees, and kernels with their operators.

The following keys of events are used: ``ph`` X, ``cat``, ``name``, ``ts`` and ``dur`` in
microseconds, ``tid``, and in ``args`` External id, correlation, Sequence number, Fwd thread id,
Input Dims, Concrete Inputs, and the message of NCCL's events.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from dpsim.base.files import read_limited, unpack_gzip
from dpsim.imports.reading import ImportFileError

MOST_BYTES = 512 * 2**20
MOST_RANKS = 2**20
_MOST_ELEMENTS = 2**50  # of a tensor
_MOST_NESTED = 500  # the deepest nesting of operators, which are walked by recursion
_MICROSECOND = 1e-6

Dims = tuple[tuple[int, ...], ...]


@dataclass(eq=False, slots=True)
class Event:
    """A complete event; times in seconds.

    ``children`` are the operators inside it on its thread.
    """

    name: str
    category: str
    start: float
    end: float
    thread: object
    args: dict[str, Any]
    parent: Event | None = None
    children: list[Event] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """The duration of the event."""
        return self.end - self.start

    def number(self, key: str) -> int | None:
        """Return an argument that is a 64-bit integer, also as text, or None."""
        value = self.args.get(key)
        if isinstance(value, str) and len(value) < 20 and value.lstrip("-").isdecimal():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            return None
        return value if abs(value) < 2**63 else None

    @property
    def dims(self) -> Dims:
        """The shapes of the inputs; empty for inputs that are not plausible tensors."""
        raw = self.args.get("Input Dims")
        shapes = raw if isinstance(raw, list) else []
        return tuple(_shape(shape) for shape in shapes)

    def with_args(self, args: dict[str, Any]) -> Event:
        """Return the same event with other arguments."""
        return replace(self, args=args)

    def root(self) -> Event:
        """Return the outermost operator that contains the event."""
        event = self
        while event.parent is not None:
            event = event.parent
        return event

    def walk(self) -> Iterator[Event]:
        """Yield the event and everything inside, in order of start."""
        waiting = [self]
        while waiting:
            event = waiting.pop()
            yield event
            waiting += reversed(event.children)


def _shape(sides: Any) -> tuple[int, ...]:
    found = (
        tuple(side for side in sides if isinstance(side, int)) if isinstance(sides, list) else ()
    )
    return found if abs(math.prod(found)) < _MOST_ELEMENTS else ()


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """The events of a trace by kind.

    They are outermost operators, kernels, marked intervals, and calls of collectives.
    """

    operators: tuple[Event, ...]
    kernels: tuple[
        tuple[Event, Event | None], ...
    ]  # with the innermost operator that launched it, if known
    annotations: tuple[Event, ...]
    modules: tuple[Event, ...]
    device: str
    rank: int | None = None  # in the job, if the trace has it
    # The mark of a kernel's call, such as nccl:all_reduce, by the kernel's identity.
    calls: dict[int, Event] = field(default_factory=dict)


def read_trace(path: Path) -> Trace:
    """Read the trace in a JSON file, gzipped or not.

    Raises DpsimError if it cannot be read or is invalid.
    """
    content = unpack_gzip(path, read_limited(path, MOST_BYTES), MOST_BYTES)
    try:
        return parse_trace(content)
    except ImportFileError as problem:
        raise problem.of(path) from None


def parse_trace(content: bytes) -> Trace:
    """Parse the trace in the text of a JSON file. Raises ImportFileError if it is invalid."""
    try:
        # Names of kernels may contain invalid UTF-8, which must not reject the trace.
        data = json.load(io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", errors="replace"))
    except json.JSONDecodeError as error:
        raise ImportFileError(
            f"must be JSON, but: {error.msg} (column {error.colno})", error.lineno
        ) from None
    except ValueError as error:  # a number with thousands of digits
        raise ImportFileError(f"must be JSON, but: {str(error)[:100]}") from None
    except RecursionError:
        raise ImportFileError("must be a trace, but is nested too deeply") from None
    raw = data.get("traceEvents") if isinstance(data, dict) else data
    if not isinstance(raw, list):
        raise ImportFileError(
            "must be a Chrome trace with a list traceEvents, as export_chrome_trace writes it"
        )
    events = list(_complete(raw))
    by_category: dict[str, list[Event]] = {}
    for event in events:
        by_category.setdefault(event.category, []).append(event)
    # Older versions capitalise the categories.
    operators = by_category.get("cpu_op", []) or by_category.get("Operator", [])
    if not operators:
        raise ImportFileError(
            "must have events of category cpu_op: profile with ProfilerActivity.CPU as well"
        )
    roots = nest(event for event in operators if not event.name.startswith(_CONTAINERS))
    device = next((str(one.get("name")) for one in _devices(data) if one.get("name")), "")
    kernels = tuple(_match_kernels(by_category, operators))
    if not kernels:
        _check_device(by_category)
    return Trace(
        tuple(roots),
        kernels,
        tuple(
            by_category.get("user_annotation", [])
            + [event for event in operators if event.name.startswith(_CONTAINERS)]
        ),
        tuple(
            event
            for event in by_category.get("python_function", [])
            if event.name.startswith("nn.Module: ")
        ),
        device,
        _rank(data),
        _calls(by_category, [kernel for kernel, _ in kernels]),
    )


# Endings of the categories of launches: cuda_runtime, cuda_driver, Runtime, xpu_runtime.
_LAUNCHING = ("runtime", "driver")
# Categories that say nothing of a device that computes.
_NOT_RUN = ("cpu_op", "Operator", "user_annotation", "gpu_memcpy", "overhead")

# Marks around many operators, which older versions write as operators.
_CONTAINERS = (
    "ProfilerStep",
    "Optimizer.",
    "DistributedDataParallel",
    "enumerate(",
    "nccl:",
    "Torch-Compiled Region",
)


def _devices(data: Any) -> list[dict[str, Any]]:
    found = data.get("deviceProperties") if isinstance(data, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _rank(data: Any) -> int | None:
    """Return the rank in ``distributedInfo``, which torch writes once its process group is up."""
    found = data.get("distributedInfo") if isinstance(data, dict) else None
    rank = found.get("rank") if isinstance(found, dict) else None
    is_rank = isinstance(rank, int) and not isinstance(rank, bool) and 0 <= rank < MOST_RANKS
    return rank if is_rank else None


def _complete(raw: list[Any]) -> Iterator[Event]:
    """Yield the events with a duration; others (flows, counters, thread names) are left out."""
    for index, event in enumerate(raw):
        if not isinstance(event, dict):
            raise ImportFileError(
                f"traceEvents[{index}] must be a JSON object, but is {type(event).__name__}"
            )
        # "X" is the phase of complete events in Chrome's trace format.
        if event.get("ph") != "X":
            continue
        times = []
        for key in ("ts", "dur"):
            try:
                times.append(float(event[key]))
            except (KeyError, TypeError, ValueError, OverflowError):
                raise ImportFileError(
                    f"traceEvents[{index}].{key} must be a number, but got "
                    f"{repr(event.get(key))[:100]}"
                ) from None
        start, duration = times
        if not (abs(start) < 1e18 and 0 <= duration < 1e15):
            raise ImportFileError(
                f"traceEvents[{index}] must have a finite time and a duration from 0 on, but got "
                f"{start}, {duration}"
            )
        args = event.get("args")
        yield Event(
            str(event.get("name", "")),
            str(event.get("cat", "")),
            start * _MICROSECOND,
            (start + duration) * _MICROSECOND,
            event.get("tid"),
            args if isinstance(args, dict) else {},
        )


def nest(events: Iterable[Event]) -> list[Event]:
    """Put each event into the innermost one around it on its thread.

    Return the outermost events by start. Raises ImportFileError for too deep nesting.
    """
    roots: list[Event] = []
    stacks: dict[object, list[Event]] = {}
    # Among events with the same start the longest comes first, since it contains the others.
    for event in sorted(events, key=lambda event: (event.start, -event.end)):
        stack = stacks.setdefault(str(event.thread), [])
        # An event that ends before this one contains neither it nor any later one.
        while stack and stack[-1].end < event.end:
            stack.pop()
        if stack:
            event.parent = stack[-1]
            stack[-1].children.append(event)
        else:
            roots.append(event)
        stack.append(event)
        if len(stack) > _MOST_NESTED:
            raise ImportFileError(
                f"operators must be nested at most {_MOST_NESTED} deep, but {event.name[:60]!r} "
                "lies deeper"
            )
    return roots


def innermost(intervals: Iterable[Event], events: Iterable[Event]) -> dict[int, Event]:
    """Return the innermost interval around each event on its thread, by the event's identity.

    Events outside all intervals are left out.
    """
    innermost_of: dict[int, Event] = {}
    stacks: dict[object, list[Event]] = {}
    marked = [(event, True) for event in intervals] + [(event, False) for event in events]
    # An interval also contains an event of exactly its length, so it comes first.
    for event, is_interval in sorted(
        marked, key=lambda pair: (pair[0].start, -pair[0].end, not pair[1])
    ):
        stack = stacks.setdefault(str(event.thread), [])
        while stack and stack[-1].end < event.end:
            stack.pop()
        if is_interval:
            stack.append(event)
        elif stack:
            innermost_of[id(event)] = stack[-1]
    return innermost_of


def _match_kernels(
    by_category: dict[str, list[Event]], operators: list[Event]
) -> Iterator[tuple[Event, Event | None]]:
    """Yield kernels, each with its operator.

    They match by the launch with the same correlation inside the operator, else by External id,
    which older versions number by launches instead of operators.
    """
    by_id = _by_number(operators, "External id")
    launches = _launches(by_category)
    around = innermost(operators, launches.values())
    for category in ("kernel", "Kernel", "gpu_memset"):
        for kernel in by_category.get(category, []):
            operator = (
                by_id.get(number) if (number := kernel.number("External id")) is not None else None
            )
            launch = (
                launches.get(number)
                if (number := kernel.number("correlation")) is not None
                else None
            )
            yield kernel, (around.get(id(launch)) if launch is not None else None) or operator


def _by_number(events: Iterable[Event], key: str) -> dict[int, Event]:
    return {number: event for event in events if (number := event.number(key)) is not None}


def _launches(by_category: dict[str, list[Event]]) -> dict[int, Event]:
    """Return the host's launch of each kernel, by their correlation."""
    found = (
        event
        for category, events in by_category.items()
        if category.lower().endswith(_LAUNCHING)
        for event in events
    )
    return _by_number(found, "correlation")


def _check_device(by_category: dict[str, list[Event]]) -> None:
    """Raise ImportFileError if launched work appears as events that are not kernels.

    Such as MTIA's events, or ranges of CUPTI's counters. Without them the whole step would seem to
    run on the host.
    """
    launches = _launches(by_category)
    for category, events in by_category.items():
        if category in _NOT_RUN or category.lower().endswith(_LAUNCHING):
            continue
        if any(launches.get(event.number("correlation") or -1) for event in events):
            raise ImportFileError(
                "must have kernels (events of category kernel), but what was launched has category "
                f"{category[:60]!r}, which is not read"
            )


def _calls(by_category: dict[str, list[Event]], kernels: list[Event]) -> dict[int, Event]:
    """Return the mark of the NCCL call that launched each kernel, by the kernel's identity.

    The mark is around its launch on the host, or has the kernel's External id, or is around the
    kernel on the GPU.
    """
    on_host, on_gpu = (
        [event for event in by_category.get(category, []) if event.name.startswith("nccl:")]
        for category in ("user_annotation", "gpu_user_annotation")
    )
    by_id, launches = _by_number(on_host, "External id"), _launches(by_category)
    around, over = innermost(on_host, launches.values()), innermost(on_gpu, kernels)
    mark_of: dict[int, Event] = {}
    for kernel in kernels:
        launch = launches.get(kernel.number("correlation") or -1)
        marks = (
            None if launch is None else around.get(id(launch)),
            by_id.get(kernel.number("External id") or -1),
            over.get(id(kernel)),
        )
        mark = next((mark for mark in marks if mark is not None), None)
        if mark is not None:
            mark_of[id(kernel)] = mark
    return mark_of

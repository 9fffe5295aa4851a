"""Build a model profile from a trace of PyTorch's profiler.

It has each layer's seconds forward and backward, its gradient's time, and the NCCL calls.

A layer is an outermost operator of the forward pass (or the module around it, if the trace has
modules). Backward operators refer to the sequence number of their forward operator, by which their
kernels belong to a layer. Times are of GPU kernels, averaged over the steps of the trace; in a
trace without a GPU, of operators. If shapes were recorded, parameters and FLOP of convolutions,
linear layers, norms and embeddings are derived from them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from dpsim.base.errors import DpsimError
from dpsim.base.provenance import stamp
from dpsim.imports.kineto_events import Event, Trace, innermost, read_trace
from dpsim.imports.kineto_shapes import Guess, first_batch, guess
from dpsim.imports.kineto_steps import (
    StepMarks,
    collectives_of,
    is_collective,
    step_times,
    traced_step,
)
from dpsim.imports.reading import ImportFileError
from dpsim.workload import MeasuredCollective, MeasuredTimes, ModelProfile, ProfileLayer, TracedStep

_EVALUATE = "autograd::engine::evaluate_function: "
_GLOO = "gloo:"
_IDLE_SHARE = 0.01  # the share of a step from which on idle time is worth a note


def profile_kineto(
    path: Path, *, batch: int | None = None, name: str | None = None
) -> ModelProfile:
    """Return the profile of a trace file, gzipped or not.

    ``batch`` is samples per GPU and step; by default it is the first dimension of the first layer's
    input, if shapes were recorded. Raises DpsimError with the file's name for an unusable trace.
    """
    return _profile_of(read_trace(path), path, batch, name)


def profile_with_parts(
    path: Path,
) -> tuple[ModelProfile, tuple[float, float, float, float] | None]:
    """Return the profile of a trace for one sample, and the seconds of a step's parts.

    They are the whole step; in which no kernel runs; in which collectives run; and of those without
    concurrent computing: medians over steps, None if a step has no computing. Raises as
    `profile_kineto`.
    """
    trace = read_trace(path)
    profile = _profile_of(trace, path, 1, None)
    try:
        steps = step_times(trace, path).values()
    except DpsimError:
        return profile, None
    rows = [
        (step.busy_s + step.idle_s, step.idle_s, step.communication_s, step.exposed_s)
        for step in steps
    ]
    whole, idle, communication, exposed = np.median(rows, axis=0).tolist()
    return profile, (whole, idle, communication, exposed)


def _profile_of(trace: Trace, path: Path, batch: int | None, name: str | None) -> ModelProfile:
    try:
        return build_profile(
            trace, batch=batch, name=name or path.name.split(".")[0], file=path.name
        )
    except ImportFileError as problem:
        raise problem.of(path) from None


@dataclass(slots=True)
class _LayerOfStep:
    """The activity of one step in one layer."""

    name: str
    guess: Guess
    forward: float = 0.0
    backward: float = 0.0
    ready: float = 0.0  # end of its last backward kernel, on the trace's clock


@dataclass(slots=True)
class _Step:
    place: int
    layers: dict[str, _LayerOfStep] = field(default_factory=dict)
    optimizer: float = 0.0
    lost: float = 0.0  # of kernels without a layer
    backward_start: float = float("inf")
    collectives: list[tuple[Event, Event | None]] = field(default_factory=list)

    @property
    def signature(self) -> tuple[str, ...]:
        return tuple(self.layers)


# By ("sequence", number of the forward operator), and by the identity of an outermost operator.
_Owners = dict[tuple[str, int] | int, _LayerOfStep]


def build_profile(trace: Trace, *, batch: int | None, name: str, file: str = "") -> ModelProfile:
    """Return the profile of a trace.

    Raises ImportFileError without a training step, or without a batch size.
    """
    batch = batch or first_batch(trace.operators)
    if batch is None:
        raise ImportFileError(
            "the trace has no shapes that tell the batch: profile with record_shapes=True, or "
            "give --batch"
        )
    steps = [
        step for step in _steps(trace) if any(layer.backward for layer in step.layers.values())
    ]
    if not steps:
        raise ImportFileError(
            "must have a training step: no backward operator belongs to a forward one"
        )

    # Average the steps that have the most common layers.
    common, count = Counter(step.signature for step in steps).most_common(1)[0]
    alike = [step for step in steps if step.signature == common]
    # The last step: DDP rearranges its buckets after the first.
    calls = collectives_of(alike[-1].collectives, trace.calls, alike[-1].backward_start)
    # An operator without kernels in any step, such as a view, is not a layer.
    kept = [
        one
        for one in common
        if any(step.layers[one].forward or step.layers[one].backward for step in alike)
    ]
    measured = _mean_times(alike, kept, batch, trace)
    lost = float(np.mean([step.lost for step in alike]))
    traced = None
    with suppress(DpsimError):  # a step without computing has no parts
        times = list(step_times(trace, Path(file)).values())
        traced = traced_step([times[step.place] for step in alike], kept, measured, lost)
    notes = _notes(trace, alike, len(steps) - count, calls, traced)
    return ModelProfile(
        name=name,
        sample=f"1 of {batch} in the trace",
        layers=tuple(_layers([alike[0].layers[one] for one in kept], batch)),
        measured=measured,
        traced=traced,
        collectives=tuple(calls),
        notes=tuple(notes),
        provenance={
            "source": f"dpsim import kineto {file}",
            "steps": str(count),
            "device": trace.device,
            **stamp(),
        },
    )


def _steps(trace: Trace) -> list[_Step]:
    """Return the steps of the trace, by the profiler's marks; a single one without marks."""
    marks = StepMarks(trace)
    steps = [_Step(place) for place in range(marks.count)]

    def step_of(event: Event) -> _Step | None:
        place = marks.place(event)
        return None if place is None else steps[place]

    updates = innermost(
        [mark for mark in trace.annotations if mark.name.startswith("Optimizer.")], trace.operators
    )
    owners = _forward(trace, step_of, updates)
    kernels: list[tuple[Event, Event | None]] = list(trace.kernels) or [
        (root, root) for root in trace.operators
    ]
    for kernel, operator in kernels:
        # By the time of the launch: on the GPU it may run after the host has begun the next step.
        step = step_of(operator or kernel)
        if step is None:
            continue
        if is_collective(kernel):
            step.collectives.append((kernel, operator))
        elif operator is None or not _add(step, kernel, operator, owners, updates):
            step.lost += kernel.seconds
    # Gloo launches no kernels: its threads mark their operations.
    for mark in trace.annotations:
        step = step_of(mark) if mark.name.startswith(_GLOO) else None
        if step is not None:
            step.collectives.append((mark, None))
    return steps


def _forward(
    trace: Trace, step_of: Callable[[Event], _Step | None], updates: Collection[int]
) -> _Owners:
    """Make the layers of each step, by sequence number and by their operator's identity.

    If two operators share a sequence number, the later one counts.
    """
    owners: _Owners = {}
    modules = innermost(trace.modules, trace.operators)
    counts: dict[tuple[int, str], int] = defaultdict(int)
    for root in trace.operators:
        step = step_of(root)
        if (
            step is None
            or root.name.startswith(_EVALUATE)
            or id(root) in updates
            or root.name == "record_param_comms"
        ):
            continue
        module = modules.get(id(root))
        name = (
            module.name.removeprefix("nn.Module: ") if module else _number(root, counts, id(step))
        )
        layer = step.layers.setdefault(name, _LayerOfStep(name, Guess()))
        layer.guess = layer.guess.merge(guess(root))
        owners[id(root)] = layer
        # Backward may refer to any operator inside.
        for event in root.walk():
            number = event.number("Sequence number")
            if number is not None and number >= 0:
                owners["sequence", number] = layer
    return owners


def _number(root: Event, counts: dict[tuple[int, str], int], step: int) -> str:
    name = root.name.rpartition("::")[2] or root.name
    counts[step, name] += 1
    return f"{name}.{counts[step, name] - 1}"


def _add(
    step: _Step, kernel: Event, operator: Event, owners: _Owners, updates: Collection[int]
) -> bool:
    """Add a kernel's seconds to a layer or to the optimiser; return whether it belongs to one."""
    root = operator.root()
    if id(root) in updates:
        step.optimizer += kernel.seconds
        return True
    if not root.name.startswith(_EVALUATE):
        layer = owners.get(id(root))
        if layer is not None:
            layer.forward += kernel.seconds
        return layer is not None
    # Kernels are in no particular order.
    step.backward_start = min(step.backward_start, kernel.start)
    number = root.number("Sequence number")
    layer = None if number is None else owners.get(("sequence", number))
    if layer is not None:
        layer.backward += kernel.seconds
        layer.ready = max(layer.ready, kernel.end)
    return layer is not None


def _layers(traced: Iterable[_LayerOfStep], batch: int) -> list[ProfileLayer]:
    """Return the layers of a profile, in their order."""
    layers = [_layer(each, batch) for each in traced]
    first = next((place for place, layer in enumerate(layers) if layer.parameters), None)
    # Backward has one product at the first weights, before which no gradient is needed.
    if first is not None:
        one = {"backward_flop": layers[first].forward_flop}
        layers[first] = layers[first].model_copy(update=one)
    return layers


def _layer(layer: _LayerOfStep, batch: int) -> ProfileLayer:
    found = layer.guess
    return ProfileLayer(
        name=layer.name,
        kind=found.kind,
        parameters=found.parameters,
        # Shapes in a trace are those of the whole batch. Backward has two products of forward's
        # size: the gradients by the input and by the weights.
        forward_flop=found.flop // batch,
        backward_flop=2 * found.flop // batch,
    )


def _mean_times(steps: list[_Step], kept: list[str], batch: int, trace: Trace) -> MeasuredTimes:
    """Return means over the steps."""

    def mean(what: str) -> tuple[float, ...]:
        return tuple(
            float(np.mean([getattr(step.layers[name], what) for step in steps])) for name in kept
        )

    ready = np.mean([_ready(step, kept) for step in steps], axis=0)
    return MeasuredTimes(
        batch_sizes=(batch,),
        forward_s=(mean("forward"),),
        backward_s=(mean("backward"),),
        gradient_ready_s=(tuple(float(one) for one in ready),),
        optimizer_s=(float(np.mean([step.optimizer for step in steps])),),
        steps_s=tuple(
            step.optimizer + sum(one.forward + one.backward for one in step.layers.values())
            for step in steps
        ),
        device=trace.device,
    )


def _ready(step: _Step, kept: list[str]) -> list[float]:
    """Return when each layer's gradient is ready, in seconds after the start of backward.

    A layer without one has the time of the layers after it.
    """
    times: list[float] = []
    latest = 0.0
    for name in reversed(kept):
        layer = step.layers[name]
        if layer.backward:
            latest = max(latest, layer.ready - step.backward_start)
        times.append(latest)
    return times[::-1]


def _notes(
    trace: Trace,
    steps: list[_Step],
    left_out: int,
    calls: Sequence[MeasuredCollective],
    traced: TracedStep | None,
) -> list[str]:
    """Return the assumptions, and what is ignored with what effect, a line each."""
    notes = [
        "ignored: activations and memory traffic, which a trace does not tell: memory is not "
        "predicted"
    ]
    if not StepMarks(trace).marks:
        notes.append(
            "assumed: no marks of steps in the trace, so all of it counts as one step: give "
            "PyTorch's profiler a schedule and call step(), or mark steps by NVTX ranges"
        )
    if not trace.kernels:
        notes.append("assumed: no GPU in the trace: times are those of the operators on the CPU")
    if left_out:
        notes.append(
            f"ignored: {left_out} steps left out whose layers differ from those of the others"
        )
    idle = 0.0 if traced is None else traced.idle_s
    if traced is not None and idle > _IDLE_SHARE * traced.step_s:
        notes.append(
            f"ignored: {idle:.3g} s of a step of {traced.step_s:.3g} s, in which no kernel runs: a "
            "predicted step is shorter by them"
        )
    lost = sum(step.lost for step in steps) / len(steps)
    if lost:
        notes.append(
            f"ignored: {lost:.3g} s a step of kernels whose operators belong to no layer: a "
            "predicted step is shorter by them"
        )
    unknown = sum(not call.payload_bytes for call in calls)
    if unknown:
        notes.append(
            f"ignored: the sizes of {unknown} of {len(calls)} collective calls, which the trace "
            "does not tell: they count 0 bytes, and dpsim advise leaves them out; profile with "
            "record_shapes=True"
        )
    if not any(layer.guess.parameters for layer in steps[0].layers.values()):
        notes.append(
            "ignored: parameters, since the trace has no shapes: a scenario of several workers "
            "with this profile is refused; profile with record_shapes=True"
        )
    return notes

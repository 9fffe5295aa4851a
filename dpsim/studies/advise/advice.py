"""Derive changes to the program, and their gain, from the profile of a traced step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import median
from typing import Any, NamedTuple

from dpsim.base.errors import DpsimError
from dpsim.base.units import TIME, human
from dpsim.studies.advise import buckets, units
from dpsim.studies.advise.line import fit_line
from dpsim.workload import MeasuredCollective, MeasuredTimes, ModelProfile

_REDUCE, _GATHER, _SCATTER = "allreduce", "allgather", "reducescatter"
_LEAST_ERROR = 0.005  # of a step: the difference of two traces of one program
_EXTRA_GATHERS = 0.5  # of the number of scatters: more mean that backward gathers again


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The recommended change, as times, settings and code; ``strategy`` is ddp or fsdp.

    ``step_s`` is the traced step time, and ``best_s`` the same minus the saving predicted by the
    model; if the trace does not show its step time, both are the model's. ``gain`` is the share of
    the step saved. ``error`` is the model's error relative to the step. ``idle_s`` is the time of
    the traced step in which no kernel runs, ``communication_s`` the time in which collectives run,
    and ``exposed_s`` the part of it without concurrent computing; None if the trace does not show
    them. DistributedDataParallel uses the two bucket sizes (MiB); FSDP the unit size (MiB of
    gathered weights), the number of units prefetched, and whether weights are freed after forward.
    """

    strategy: str
    bucket_cap_mb: float | None = None
    first_bucket_mb: float | None = None
    unit_mb: float | None = None
    prefetch: int | None = None
    reshard_after_forward: bool | None = None
    step_s: float
    best_s: float
    error: float
    code: str
    notes: tuple[str, ...]
    idle_s: float | None = None
    communication_s: float | None = None
    exposed_s: float | None = None

    @property
    def gain(self) -> float:
        """The share of the step that is saved; 0 if nothing is better."""
        return max(0.0, 1 - self.best_s / self.step_s)

    @property
    def within_error(self) -> bool:
        """Whether the gain is no more than the model's error."""
        return self.gain <= self.error

    def to_json(self) -> dict[str, Any]:
        """Return the object of ``dpsim advise --json``, without its schema version."""
        values = asdict(self)
        notes = list(values.pop("notes"))
        return {**values, "gain": self.gain, "within_error": self.within_error, "notes": notes}


class StepParts(NamedTuple):
    """The seconds of a traced step, and of its parts."""

    step_s: float
    idle_s: float
    communication_s: float
    exposed_s: float


def advise(profile: ModelProfile, parts: StepParts | None = None) -> Advice:
    """Recommend a change to the program whose step was traced as ``profile``.

    ``parts`` are the parts of the traced step, if the trace shows them. Raises DpsimError if the
    trace has no collectives with sizes, or no layer times.
    """
    measured = profile.measured
    calls = [call for call in profile.collectives if call.payload_bytes and call.duration_s]
    reduces, gathers, scatters = (_calls_of(kind, calls) for kind in (_REDUCE, _GATHER, _SCATTER))
    if measured is None or not any(measured.backward_s[0]):
        raise DpsimError(f"{profile.name}: must have a backward pass, but the trace has none")
    if gathers and scatters:
        advice = _advise_fsdp(profile, measured, gathers, scatters)
    elif reduces:
        advice = _advise_ddp(profile, measured, reduces)
    else:
        raise DpsimError(
            f"{profile.name}: must have collectives of gradients, with their sizes: profile a step "
            f"on two GPUs or more, with record_shapes=True{_times_without_sizes(profile, parts)}; "
            "dpsim import kineto says where the time of any step goes"
        )
    if parts is None:
        return advice
    # The model has no gaps between kernels, which the change does not affect.
    return replace(
        advice,
        best_s=max(0.0, parts.step_s - (advice.step_s - advice.best_s)),
        error=advice.error * advice.step_s / parts.step_s,
        **parts._asdict(),
    )


def _times_without_sizes(profile: ModelProfile, parts: StepParts | None) -> str:
    """Return the communication times of a trace whose collectives have no sizes."""
    if not profile.collectives or parts is None:
        return ""
    whole, exposed = (human(each, TIME) for each in (parts.communication_s, parts.exposed_s))
    count = len(profile.collectives)
    return f" (it has {count} calls without: {whole} of communication a step, {exposed} exposed)"


def _calls_of(kind: str, calls: Sequence[MeasuredCollective]) -> list[MeasuredCollective]:
    """Return the calls of a kind, by traces' names: allreduce, _allgather_base, reduce_scatter."""
    return [call for call in calls if call.operation.replace("_", "").startswith(kind)]


def _advise_ddp(
    profile: ModelProfile, measured: MeasuredTimes, calls: list[MeasuredCollective]
) -> Advice:
    line = fit_line(calls)
    sizes = [call.payload_bytes for call in calls]
    notes: list[str] = []
    # DistributedDataParallel sends every gradient once.
    weights = _weights(profile, sum(sizes), notes)
    ready = measured.gradient_ready_s[0]

    end = max(*ready, sum(measured.backward_s[0]))
    gradients = tuple(
        buckets.Gradient(nbytes, when)
        # Layers are in forward order; gradients become ready from the last layer on.
        for nbytes, when in reversed([*zip(weights, ready, strict=True)])
        if nbytes
    )
    backward = buckets.Backward(gradients, end, line)

    # Forward and update do not overlap with communication.
    rest = sum(measured.forward_s[0]) + (measured.optimizer() or 0.0)
    traced = max(end, *(call.start_s + call.duration_s for call in calls))
    now, best = backward.as_measured(sizes), backward.best()
    # The traced buckets, which may not be among the choices, can be kept.
    after = min(now, backward.with_buckets(best))
    step = rest + now
    error = max(_LEAST_ERROR, abs(now - traced) / (rest + traced))
    if line.smallest == line.largest:
        notes.append("all calls have one size: what a call costs beside its bytes cannot be told")
        # Calls of one size do not determine the latency: add the change of the answer if half of a
        # call were latency.
        half = replace(backward, line=line.half_latent())
        error += abs(half.with_buckets(best) - after) / step
    return Advice(
        strategy="ddp",
        bucket_cap_mb=best[0],
        first_bucket_mb=best[1],
        step_s=step,
        best_s=rest + after,
        error=error,
        code=buckets.code(best),
        notes=tuple(notes),
    )


def _advise_fsdp(
    profile: ModelProfile,
    measured: MeasuredTimes,
    gathers: list[MeasuredCollective],
    scatters: list[MeasuredCollective],
) -> Advice:
    ranks = gathers[0].ranks or 1
    # A gather reports the bytes of one rank's shard, a scatter the bytes of the whole input.
    whole = [
        call.model_copy(update={"payload_bytes": call.payload_bytes * ranks}) for call in gathers
    ]

    # If weights are freed after forward, backward gathers them again: there are about twice as many
    # gathers as scatters.
    regathers = len(gathers) - len(scatters) > _EXTRA_GATHERS * len(scatters)
    gathered = sum(call.payload_bytes for call in whole) / (2 if regathers else 1)
    reduced = sum(call.payload_bytes for call in scatters)
    notes: list[str] = []
    weights = _weights(profile, gathered, notes)
    layers = _layers(measured, weights, reduced / max(gathered, 1))
    passes = units.Passes(layers, fit_line(whole), fit_line(scatters))
    # Units are rarely all equal; the median stands for the requested size.
    size = median(call.payload_bytes for call in whole)
    traced = _span(measured, [*whole, *scatters])
    # Calls do not show the prefetching: take the value that best matches the traced step, and
    # torch's default if several do.
    used = min(
        (units.Sharding(size, ahead, regathers) for ahead in (1, 0, 2)),
        key=lambda choice: max(_LEAST_ERROR * traced, abs(passes.seconds(choice) - traced)),
    )
    best = passes.best(used)
    now, after = passes.seconds(used), passes.seconds(best)
    update = measured.optimizer() or 0.0
    error = max(_LEAST_ERROR, abs(now - traced) / (traced + update))
    if not best.reshard and regathers:
        notes.append(f"keeping weights takes {gathered / buckets.MIB:,.0f} MiB more on each GPU")
    return Advice(
        strategy="fsdp",
        unit_mb=best.size / buckets.MIB,
        prefetch=best.ahead,
        reshard_after_forward=best.reshard,
        step_s=update + now,
        best_s=update + after,
        error=error,
        code=units.code(best, _width(profile, gathered)),
        notes=tuple(notes),
    )


def _layers(
    measured: MeasuredTimes, weights: Sequence[float], share: float
) -> tuple[units.Unit, ...]:
    """Return the layers as units; gradients have ``share`` times the bytes of the weights.

    Weights and gradients may be sent in different precisions.
    """
    passes = zip(measured.forward_s[0], measured.backward_s[0], weights, strict=True)
    return tuple(
        units.Unit(forward, backward, size, size * share) for forward, backward, size in passes
    )


def _width(profile: ModelProfile, gathered: float) -> float:
    """Return the bytes of a sent weight; ``gathered`` is the total of all weights."""
    elements = sum(sum(layer.parameters) for layer in profile.layers)
    # Without shapes in the trace, assume fp32.
    return gathered / elements if elements else 4.0


def _span(measured: MeasuredTimes, calls: Sequence[MeasuredCollective]) -> float:
    """Return the time (s) from the start of forward and gathers to the end of the step."""
    # Trace times count from the start of the backward pass, so forward is below 0.
    begin = min(0.0, *(call.start_s for call in calls))
    forward = sum(measured.forward_s[0])
    end = max(sum(measured.backward_s[0]), *(call.start_s + call.duration_s for call in calls))
    return end - min(begin, -forward)


def _weights(profile: ModelProfile, total: float, notes: list[str]) -> list[float]:
    """Divide ``total`` bytes by the layers' parameters, or backward times without shapes."""
    parts = [float(sum(layer.parameters)) for layer in profile.layers]
    if not any(parts):
        assert profile.measured is not None
        parts = list(profile.measured.backward_s[0])
        notes.append(
            "no shapes in the trace: gradients are spread by backward times; profile with "
            "record_shapes=True"
        )
    scale = total / sum(parts)
    return [scale * part for part in parts]

"""One profile of all that was measured: collectives, messages, copies, and layers of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dpsim.base.provenance import stamp
from dpsim.hardware import (
    COMPUTE,
    TRANSPORT,
    CalibrationProfile,
    MeasuredModel,
    Parameter,
    Residuals,
    Transport,
)
from validate.calibrate.compute import measured_models, repetition_errors, step_errors
from validate.calibrate.copies import copy_errors, fit_copies
from validate.calibrate.fit import LARGE
from validate.calibrate.messages import Messages, fit_duplex, fit_one_way, message_errors
from validate.calibrate.profile import calibrate, known, known_parameters
from validate.calibrate.residuals import residuals_of
from validate.calibrate.sources import Measurements
from validate.records import RunRecord

if TYPE_CHECKING:
    from validate.microbench import RunFile

_FORMULAS = {
    "efficiency": "messages: latency twice, then bytes / (efficiency x rate) but for the limiter's burst",
    "copy_rate": "copies: copy_latency + bytes / copy_rate",
}


def combined(
    found: Measurements,
    name: str,
    *,
    every: int = 3,
    provenance: Mapping[str, str] | None = None,
    done: Callable[[int], None] = lambda count: None,
) -> tuple[CalibrationProfile, list[RunRecord]]:
    """The profile of all that was found, and the collectives with what it predicts.

    Collectives are fitted first, and messages beside what they say. Raises DpsimError where there
    is too little of something.
    """
    told: list[RunRecord] = []
    base: CalibrationProfile | None = None
    if found.records or not found:
        base, told = calibrate(
            found.records, name, every=every, sources=found.counts, provenance=provenance, done=done
        )
    parameters, by = _of_links(found, None if base is None else base.transport())
    models = measured_models(found.runs)
    for model in models:
        by |= _of_model(found.runs, model)
    if base is not None:
        changes = {
            "parameters": {**base.parameters, **parameters},
            "residuals_by": {**base.residuals_by, **by},
            "compute": models,
        }
        return base.model_copy(update=changes), told
    profile = CalibrationProfile(
        name=name,
        kind=TRANSPORT if parameters else COMPUTE,
        formula="; ".join(text for parameter, text in _FORMULAS.items() if parameter in parameters),
        parameters=parameters,
        compute=models,
        residuals=next(iter(by.values())) if parameters else list(by.values())[-1],
        residuals_by=by,
        runs=found.counts,
        provenance={**(provenance or {}), **stamp()},
    )
    return profile, told


def _of_links(
    found: Measurements, transport: Transport | None
) -> tuple[dict[str, Parameter], dict[str, Residuals]]:
    """What messages and copies tell beside ``transport``, and their errors."""
    parameters: dict[str, Parameter] = {}
    by: dict[str, Residuals] = {}
    if found.messages:
        parameters, by = _of_messages(found.messages, transport)
    if found.copies:
        own = fit_copies(found.copies)
        parameters |= own
        by["copies"] = residuals_of(
            copy_errors(found.copies, own), "fitted rows", [one.nbytes for one in found.copies]
        )
    return parameters, by


def _of_model(runs: Sequence[RunFile], model: MeasuredModel) -> dict[str, Residuals]:
    """How far its measured layer times are off."""
    by = {
        f"passes of {model.model}, each repetition": residuals_of(
            repetition_errors(runs, model), "fitted rows"
        )
    }
    if held_out := step_errors(model):
        by[f"steps of {model.model}, batch sizes left out"] = residuals_of(
            held_out, "held-out rows"
        )
    return by


def _of_messages(
    messages: Sequence[Messages], transport: Transport | None
) -> tuple[dict[str, Parameter], dict[str, Residuals]]:
    """What messages tell beside ``transport``, or all that they tell, and their errors."""
    parameters: dict[str, Parameter] = {}
    if transport is None:
        given = known(one.testbed for one in messages)
        own, transport = fit_one_way(messages, given)
        parameters = {**own, **known_parameters(given, own)}
    parameters["duplex"] = fit_duplex(messages, transport)
    whole = transport.model_copy(update={"duplex": parameters["duplex"].value})
    parts = {"messages": list(messages)}
    for one in messages:
        way = "messages both ways at once" if one.both_ways else "messages one way"
        parts.setdefault(
            f"{way}, {'256 KiB and more' if one.nbytes >= LARGE else 'smaller'}", []
        ).append(one)
    return parameters, {
        said: residuals_of(message_errors(some, whole), "fitted rows", [one.nbytes for one in some])
        for said, some in parts.items()
    }

"""One profile of all measurements: collectives, messages, copies, and layers of models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

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
from validate.calibrate.profile import fit_collectives, known, known_parameters
from validate.calibrate.sources import Measurements
from validate.microbench.run_file import RunFile
from validate.records import RunRecord

_FORMULAS = {
    "efficiency": (
        "messages: latency twice, then bytes / (efficiency x rate) but for the limiter's burst"
    ),
    "copy_rate": "copies: copy_latency + bytes / copy_rate",
}


def fit_profile(
    found: Measurements,
    name: str,
    *,
    every: int = 3,
    provenance: Mapping[str, str] | None = None,
    done: Callable[[int], None] = lambda count: None,
) -> tuple[CalibrationProfile, list[RunRecord]]:
    """Return the profile of all measurements, and the collectives' records with its predictions.

    Collectives are fitted first; messages then add the rest. Raises DpsimError if there are too few
    measurements of a kind.
    """
    records: list[RunRecord] = []
    base: CalibrationProfile | None = None
    # If there is nothing at all, the error is that there are too few collectives.
    if found.records or not found:
        base, records = fit_collectives(
            found.records, name, every=every, sources=found.counts, provenance=provenance, done=done
        )
    parameters, residuals_by = _fit_links(found, None if base is None else base.transport())

    models = measured_models(found.runs)
    for model in models:
        residuals_by |= _layer_errors(found.runs, model)
    if base is not None:
        changes = {
            "parameters": {**base.parameters, **parameters},
            "residuals_by": {**base.residuals_by, **residuals_by},
            "compute": models,
        }
        return base.model_copy(update=changes), records
    # Links come first in the table, models last: a profile of links is judged by all messages, one
    # of layers by the steps of held-out batch sizes.
    each = list(residuals_by.values())
    profile = CalibrationProfile(
        name=name,
        kind=TRANSPORT if parameters else COMPUTE,
        formula="; ".join(text for parameter, text in _FORMULAS.items() if parameter in parameters),
        parameters=parameters,
        compute=models,
        residuals=each[0] if parameters else each[-1],
        residuals_by=residuals_by,
        runs=found.counts,
        provenance={**(provenance or {}), **stamp()},
    )
    return profile, records


def _fit_links(
    found: Measurements, transport: Transport | None
) -> tuple[dict[str, Parameter], dict[str, Residuals]]:
    """Fit messages and copies beside ``transport``; return parameters and errors."""
    parameters: dict[str, Parameter] = {}
    residuals_by: dict[str, Residuals] = {}
    if found.messages:
        parameters, residuals_by = _fit_messages(found.messages, transport)
    if found.copies:
        own = fit_copies(found.copies)
        parameters |= own
        errors = copy_errors(found.copies, own)
        sizes = [one.nbytes for one in found.copies]
        residuals_by["copies"] = Residuals.of(errors, "fitted rows", sizes)
    return parameters, residuals_by


def _layer_errors(runs: Sequence[RunFile], model: MeasuredModel) -> dict[str, Residuals]:
    """Return the errors of its measured layer times."""
    repeated = Residuals.of(repetition_errors(runs, model), "fitted rows")
    residuals_by = {f"passes of {model.model}, each repetition": repeated}
    if errors := step_errors(model):
        held_out = Residuals.of(errors, "held-out rows")
        residuals_by[f"steps of {model.model}, batch sizes left out"] = held_out
    return residuals_by


def _fit_messages(
    messages: Sequence[Messages], transport: Transport | None
) -> tuple[dict[str, Parameter], dict[str, Residuals]]:
    """Fit messages beside ``transport``, or all their parameters; return these and the errors."""
    parameters: dict[str, Parameter] = {}
    if transport is None:
        given = known(one.testbed for one in messages)
        own, transport = fit_one_way(messages, given)
        parameters = {**own, **known_parameters(given, own)}
    # Last, since the duplex ratio needs the transport's one-way costs.
    parameters["duplex"] = fit_duplex(messages, transport)
    whole = transport.model_copy(update={"duplex": parameters["duplex"].value})
    groups = {"messages": list(messages)}
    for one in messages:
        way = "messages both ways at once" if one.both_ways else "messages one way"
        size = "256 KiB and more" if one.nbytes >= LARGE else "smaller"
        groups.setdefault(f"{way}, {size}", []).append(one)
    residuals_by = {}
    for name, group in groups.items():
        sizes = [one.nbytes for one in group]
        residuals_by[name] = Residuals.of(message_errors(group, whole), "fitted rows", sizes)
    return parameters, residuals_by

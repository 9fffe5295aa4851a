"""A calibration profile from records of collectives, and messages: parameters and errors."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence

from dpsim.base.errors import DpsimError
from dpsim.base.provenance import stamp
from dpsim.hardware import TRANSPORT, CalibrationProfile, Parameter, Residuals
from dpsim.topology import TestbedConfig
from validate.calibrate.cases import case_of, predicted_s
from validate.calibrate.fit import LARGE, fit
from validate.calibrate.messages import Messages, fit_duplex, message_errors
from validate.ranks.testbed import burst_bytes
from validate.records import RunRecord

_QUEUE_BYTES = 16384.0  # bytes: anything from one packet to the send buffer predicts the same
LEAST_CASES = 10  # cases: with fewer, parameters would be guesses

FORMULA = (
    "Ranks share processors; a receive is announced before its message comes; links are token "
    "buckets (dpsim.network.transport.transport)"
)


def fit_collectives(
    records: Sequence[RunRecord],
    name: str,
    *,
    every: int = 3,
    sources: Mapping[str, int] | None = None,
    provenance: Mapping[str, str] | None = None,
    done: Callable[[int], None] = lambda count: None,
) -> tuple[CalibrationProfile, list[RunRecord]]:
    """Fit a profile on each ``every``-th collective; return it and the records with predictions.

    The others are held out: their errors are the profile's residuals. Raises DpsimError for too few
    collectives.
    """
    collectives = [record for record in records if record.kind == "collective"]
    chosen = collectives[::every]
    if len(chosen) < LEAST_CASES:
        raise DpsimError(
            f"runs must have at least {LEAST_CASES * every} collectives to fit on one of {every}, "
            f"but have {len(collectives)}"
        )

    cases = [case_of(record) for record in chosen]
    given = fixed_parameters(case.testbed for case in cases)
    fitted = fit(cases, [record.median_s for record in chosen], given, done=done)

    predicted_records = []
    for number, record in enumerate(collectives):
        predicted = predicted_s(case_of(record), fitted.transport)
        changes = {"predicted_s": predicted, "fitted": number % every == 0}
        predicted_records.append(record.model_copy(update=changes))
    not_fitted = known_parameters(fitted.transport.model_dump(), fitted.parameters)

    # If every collective is fitted on, none is held out, and the errors are those of the fit.
    held_out = [record for record in predicted_records if not record.fitted]

    profile = CalibrationProfile(
        name=name,
        kind=TRANSPORT,
        formula=FORMULA,
        parameters={**fitted.parameters, **not_fitted},
        residuals=_residuals(held_out or predicted_records, held_out=every > 1),
        residuals_by=_parts(predicted_records),
        runs=dict(sources or {}),
        provenance={**(provenance or {}), **stamp()},
    )
    return profile, predicted_records


def with_messages(profile: CalibrationProfile, messages: Sequence[Messages]) -> CalibrationProfile:
    """Add the duplex factor of ``messages`` to a profile of collectives. Raises DpsimError."""
    transport = profile.transport()
    duplex = fit_duplex(messages, transport)
    whole = transport.model_copy(update={"duplex": duplex.value})
    groups = {"messages": list(messages)}
    for one in messages:
        way = "messages both ways at once" if one.both_ways else "messages one way"
        size = "256 KiB and more" if one.nbytes >= LARGE else "smaller"
        groups.setdefault(f"{way}, {size}", []).append(one)
    residuals_by = dict(profile.residuals_by)
    for name, group in groups.items():
        sizes = [one.nbytes for one in group]
        residuals_by[name] = Residuals.of(message_errors(group, whole), "fitted rows", sizes)
    parameters = {**profile.parameters, "duplex": duplex}
    return profile.model_copy(update={"parameters": parameters, "residuals_by": residuals_by})


def fixed_parameters(testbeds: Iterable[TestbedConfig]) -> dict[str, float]:
    """Return the parameters that are not fitted: limiters' buckets, processors, sender's queue."""
    # In seconds a limiter's bucket is the same at every rate (except on the slowest links, where it
    # is one frame), so any of the testbeds will do.
    testbed = next(iter(testbeds))
    rate = max(testbed.rates)
    return {
        "burst": burst_bytes(rate, testbed.mtu) / rate,
        "cores": len(os.sched_getaffinity(0)),
        "queue": _QUEUE_BYTES,
    }


def known_parameters(
    values: Mapping[str, float], fitted: Mapping[str, Parameter]
) -> dict[str, Parameter]:
    """Return the known values as parameters without errors."""
    units = {"burst": "s", "cores": "1", "queue": "B"}
    return {
        name: Parameter(value=values[name], unit=unit)
        for name, unit in units.items()
        if name not in fitted
    }


def _parts(records: Sequence[RunRecord]) -> dict[str, Residuals]:
    """Return residuals of the fitted records, and of held-out ones by size and by algorithm."""
    out = [record for record in records if not record.fitted]
    parts: dict[str, list[RunRecord]] = {
        "fitted on": [record for record in records if record.fitted],
        "held out, 256 KiB and more": [record for record in out if case_of(record).bytes >= LARGE],
        "held out, smaller": [record for record in out if case_of(record).bytes < LARGE],
    }
    for record in out:
        parts.setdefault(f"held out, {case_of(record).algorithm}", []).append(record)
    return {
        name: _residuals(rows, held_out=name != "fitted on") for name, rows in parts.items() if rows
    }


def _residuals(records: Sequence[RunRecord], *, held_out: bool) -> Residuals:
    return Residuals.of(
        [record.error or 0.0 for record in records],
        "held-out rows" if held_out else "fitted rows",
        [case_of(record).bytes for record in records],
    )

"""Fitted step constants as a calibration profile."""

from __future__ import annotations

from typing import Any

from dpsim.hardware import COMPUTE, STEPS, CalibrationProfile, Parameter, Residuals
from dpsim.studies.calibrate.fit import Fitted
from dpsim.studies.calibrate.single_steps import jitter_of

_FORMULA = "see dpsim.engine.step_constants"


def profile_of(
    found: Fitted, name: str, base: CalibrationProfile | None = None
) -> CalibrationProfile:
    """Return the profile of a cluster; ``base`` is its earlier profile.

    Each constant is in ``step`` and, with the interval of its posterior, in ``step_intervals``; the
    jitter of runs that were logged step by step is in ``spreads``.
    """
    errors = found.seconds / [run.step_time for run in found.runs] - 1
    residuals = Residuals.of(errors, "fitted rows")
    step = found.constants
    intervals = {
        prior.name: Parameter(
            value=getattr(step, prior.name),
            unit=prior.unit,
            low=found.interval(index)[0],
            high=found.interval(index)[1],
        )
        for index, prior in enumerate(found.free)
    }
    known = tuple(run.known for run in found.runs)
    jitter = jitter_of(found.runs)
    spreads = () if jitter is None else (jitter,)
    if base is not None:
        changes: dict[str, Any] = {"step": step, "step_intervals": intervals, "known": known}
        # Ranks timed one by one are more precise than whole steps.
        changes["spreads"] = base.spreads or spreads
        changes |= {"kind": STEPS, "residuals": residuals} if base.kind in (STEPS, COMPUTE) else {}
        return base.model_copy(update=changes)
    return CalibrationProfile(
        name=name,
        kind=STEPS,
        formula=_FORMULA,
        step=step,
        step_intervals=intervals,
        known=known,
        spreads=spreads,
        residuals=residuals,
    )

"""Uploaded measured steps: the calibration of a scenario from them.

Their columns are values of the scenario; they cannot name files or code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.reading import scenario
from app.spec import Spec
from app.uploads import uploaded_file
from app.work import Report
from dpsim.studies.calibrate import calibrate, runs_of_table

MOST_ROWS = 64


@dataclass(frozen=True, slots=True)
class OwnSteps:
    """The output of `dpsim calibrate`, and the profile's text for a scenario's ``calibration``."""

    answer: dict[str, Any]
    profile: str


def own_steps(name: str, data: bytes, spec: Spec, report: Report) -> OwnSteps:
    """Fit ``spec`` to the table ``name`` of measured steps.

    Raises DpsimError, with the file's name and the line, for invalid tables.
    """
    given = scenario(spec)
    with uploaded_file(name, data) as path:
        # Log files would be beside the table, where an upload has none.
        runs = runs_of_table(path, lambda sets: scenario(spec.with_options(sets)), most=MOST_ROWS)
    report(1, 2)
    found = calibrate(runs, given)
    return OwnSteps(found.to_json(), found.profile.model_dump_json(exclude_defaults=True))

"""Measured steps that are uploaded: the calibration that they give a scenario.

Their columns are values of the scenario, which names no file and no code here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from app.reading import admitted
from app.spec import Spec
from app.uploads import uploaded_file
from app.work import Report
from dpsim.studies.calibrate import calibrate, runs_of_table

MOST_ROWS = 64


@dataclass(frozen=True, slots=True)
class OwnSteps:
    """What `dpsim calibrate` answers, and the profile's text for a scenario's ``calibration``."""

    answer: dict[str, Any]
    profile: str


def own_steps(name: str, data: bytes, spec: Spec, report: Report) -> OwnSteps:
    """Fit ``spec`` to the table ``name`` of measured steps.

    Raises DpsimError, with the file's name and the line, for what is wrong.
    """
    given = admitted(spec)
    with uploaded_file(name, data) as path:
        # Logs lie beside the table, where there is nothing here.
        runs = runs_of_table(path, lambda sets: admitted(spec.with_options(sets)), most=MOST_ROWS)
    report(1, 2)
    found = calibrate(runs, given)
    return OwnSteps(found.to_json(), found.profile.model_dump_json(exclude_defaults=True))

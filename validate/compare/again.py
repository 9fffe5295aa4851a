"""Predicts records again with the current simulator; measurements are unchanged."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from dpsim.base.errors import DpsimError
from dpsim.engine import run_scenario
from dpsim.hardware import load_profile
from dpsim.scenario import load_scenario
from validate.calibrate import with_predictions
from validate.records import OF_A_STEP, RunRecord


def predict_again(
    records: Iterable[RunRecord],
    profile: str | os.PathLike[str] | None = None,
    done: Callable[[int], None] = lambda count: None,
) -> list[RunRecord]:
    """Return the records with new predictions.

    Steps are predicted from their scenario files, collectives (only with ``profile``) from its
    transport. Raises DpsimError if a scenario's file is not where the record says.
    """
    loaded = None if profile is None else load_profile(profile)
    found = []
    for count, record in enumerate(records, 1):
        if record.kind == "step":
            found.append(_step(record, profile))
        elif loaded is None:
            found.append(record)
        else:
            found += with_predictions([record], loaded)
        done(count)
    return found


def _step(record: RunRecord, profile: str | os.PathLike[str] | None) -> RunRecord:
    if "scenario" not in record.case:
        raise DpsimError(
            f"{record.name}: must name its scenario's file to be predicted again, but does not"
        )
    own = record.case.get("set", [])
    sets = own if profile is None else [*own, f"calibration={os.path.abspath(profile)}"]
    # The measured run used the warm-up of the file, settled or not.
    scenario = load_scenario(record.case["scenario"], sets)
    result = run_scenario(scenario, settle=False).result.to_json()
    case = {**record.case, "predicted": {key: result[key] for key in OF_A_STEP}}
    return record.model_copy(update={"predicted_s": result["step_time_s"]["mean"], "case": case})

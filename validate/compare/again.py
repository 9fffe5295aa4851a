"""Predicts records again with the current simulator; measurements are unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from dpsim.base.errors import DpsimError
from dpsim.engine import run_scenario
from dpsim.scenario import load_scenario
from validate.records import OF_A_STEP, RunRecord


def predict_again(
    records: Iterable[RunRecord],
    done: Callable[[int], None] = lambda count: None,
) -> list[RunRecord]:
    """Return the records with new predictions.

    Those of steps come from their scenario files; collectives stay as they are. Raises DpsimError
    where a scenario's file is not where the record says.
    """
    found = []
    for count, record in enumerate(records, 1):
        found.append(_step(record) if record.kind == "step" else record)
        done(count)
    return found


def _step(record: RunRecord) -> RunRecord:
    if "scenario" not in record.case:
        raise DpsimError(
            f"{record.name}: must name its scenario's file to be predicted again, but does not"
        )
    # What was measured had the warm-up of the file, settled or not.
    scenario = load_scenario(record.case["scenario"], record.case.get("set", []))
    result = run_scenario(scenario, settle=False).result.to_json()
    case = {**record.case, "predicted": {key: result[key] for key in OF_A_STEP}}
    return record.model_copy(update={"predicted_s": result["step_time_s"]["mean"], "case": case})

"""The measured steps that ``dpsim calibrate`` accepts: a table, records, or one run's steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dpsim.base.errors import DpsimError

if TYPE_CHECKING:
    from dpsim.scenario import Scenario
    from dpsim.studies.calibrate import MeasuredRun
    from validate.records import RunRecord

_TABLE = "steps.csv"  # of a folder
_RECORDS = (".json", ".json.gz")


def runs_of(file: Path, steps: Path, overrides: Sequence[str]) -> list[MeasuredRun]:
    """Return the runs in ``steps``: of the scenario in ``file``, or of those in records.

    A folder of traces is a run of the scenario itself. Raises DpsimError.
    """
    from dpsim.imports.step_logs import read_step_log
    from dpsim.imports.traced_steps import read_traced_steps
    from dpsim.scenario import load_scenario
    from dpsim.studies.calibrate import LOG, TRACE, measured_runs, own_run

    readers = {
        LOG: lambda path, run: read_step_log(path),
        TRACE: lambda path, run: read_traced_steps(path, _gpus_per_node(run)),
    }
    table = steps / _TABLE if steps.is_dir() else steps
    if steps.is_dir() and not table.exists() and not any(steps.rglob("run*.json*")):
        if not any(steps.glob("*.json*")):
            raise DpsimError(
                f"{steps}: must have {_TABLE}, whose column log names its logs, traces of each "
                "rank, or records of dpsim validate run (run*.json), but has none"
            )
        return [own_run(TRACE, steps, load_scenario(file, overrides), readers)]
    if not table.exists() or table.name.endswith(_RECORDS):
        return _recorded(steps)
    return measured_runs(file, table, overrides, readers)


def _gpus_per_node(run: Scenario) -> int | None:
    """Return the ranks of each node of a run; None where nodes differ."""
    counts = {part.gpus_per_node or part.node.gpus for part in run.cluster.parts}
    return counts.pop() if len(counts) == 1 else None


def _recorded(path: Path) -> list[MeasuredRun]:
    """Return the steps recorded by `dpsim validate run`, without partial runs."""
    from validate.records import records_of

    steps = [record for record in records_of([path]) if record.kind == "step"]
    whole = [record for record in steps if not record.partial]
    if not whole:
        raise DpsimError(
            f"{path}: must have records of steps (dpsim validate run -o FILE) whose run did not "
            f"fail, but has {len(steps)} in all"
        )
    return [_run(record, path) for record in whole]


def _run(record: RunRecord, path: Path) -> MeasuredRun:
    from dpsim.scenario import load_scenario
    from dpsim.studies.calibrate import MeasuredRun

    case = record.case
    named = case.get("scenario")
    if not isinstance(named, str):
        raise DpsimError(f"{path}: {record.name}: must name its scenario, but does not")
    try:
        scenario = load_scenario(named, case.get("set", ()))
    except DpsimError as error:
        raise DpsimError(f"{path}: {record.name}: {error}") from None
    exposed = case.get("measured", {}).get("parts_s", {}).get("exposed_comm")
    return MeasuredRun(scenario, record.median_s, exposed)

"""Measured steps of one's own cluster, as a table of scenarios' fields: how they become scenarios.

The header names fields by their paths (``cluster.nodes``, ``workload.batch_per_gpu``), each row
says their values and ``step_time_ms``, and ``exposed_ms`` where its exposed communication was
measured. ``placement`` is the GPUs of each node, ``4+3+1``. A row is the scenario with those fields
set.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from dpsim.base.errors import DpsimError, ScenarioError
from dpsim.base.files import strict_csv_rows
from dpsim.scenario import Scenario, load_scenario
from dpsim.studies.calibrate.fit import MeasuredRun

STEP = "step_time_ms"
PLACEMENT = "placement"
EXPOSED = "exposed_ms"
_OWN = (STEP, EXPOSED, "note")  # columns that are no fields of a scenario
_MOST_BYTES = 16 * 2**20
_MOST_ROWS = 1000


def measured_runs(scenario: Path, table: Path, overrides: Sequence[str] = ()) -> list[MeasuredRun]:
    """The runs of ``table``, each ``scenario`` with a row's fields.

    Raises DpsimError with file, line and column for what cannot be used.
    """
    base = load_scenario(scenario, overrides)
    rows = strict_csv_rows(table, _MOST_BYTES, [STEP])
    if len(rows) > _MOST_ROWS:
        raise DpsimError(f"{table}: must have at most {_MOST_ROWS:,} rows, but has {len(rows):,}")
    return [_run(scenario, base, overrides, row, f"{table}:{line}") for line, row in rows]


def _run(
    scenario: Path, base: Scenario, overrides: Sequence[str], row: Mapping[str, str], where: str
) -> MeasuredRun:
    step = _positive(row[STEP], f"{where}: {STEP}")
    sets = [
        _placed(base, value, f"{where}: {PLACEMENT}") if name == PLACEMENT else f"{name}={value}"
        for name, value in row.items()
        if name not in _OWN and value.strip()
    ]
    try:
        found = load_scenario(scenario, [*overrides, *sets])
    except ScenarioError as error:
        raise DpsimError(f"{where}: {error}") from None
    return MeasuredRun(found, step * 1e-3, _exposed(row.get(EXPOSED, ""), step, where))


def _exposed(text: str, step: float, where: str) -> float | None:
    """Seconds of exposed communication, None where nobody measured them."""
    if not text.strip():
        return None
    value = _number(text)
    if not 0 <= value < step:
        rule = f"must be at least 0 and below {STEP}"
        raise DpsimError(f"{where}: {EXPOSED}: {rule}, but got {text!r}")
    return value * 1e-3


def _placed(base: Scenario, value: str, where: str) -> str:
    """The cluster with so many GPUs on each of its nodes, as an override."""
    counts = [part.strip() for part in value.split("+")]
    if not all(part.isdecimal() and int(part) for part in counts):
        raise DpsimError(f"{where}: must be GPUs of each node, such as 4+3+1, but got {value!r}")
    kept = base.cluster.model_dump(mode="json", exclude_unset=True)
    group = {name: kept.pop(name) for name in ("node", "gpu") if name in kept}
    for name in ("nodes", "gpus_per_node", "groups"):
        kept.pop(name, None)
    groups = [
        {**group, "nodes": counts.count(each), "gpus_per_node": int(each)}
        for each in dict.fromkeys(counts)
    ]
    return f"cluster={json.dumps({**kept, 'groups': groups})}"


def _positive(text: str, where: str) -> float:
    value = _number(text)
    if not 0 < value < math.inf:
        raise DpsimError(f"{where}: must be a number above 0, but got {text!r}")
    return value


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan

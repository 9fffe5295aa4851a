"""Read measured steps of a cluster from a table of scenario fields.

The header names fields by their paths (``cluster.nodes``, ``workload.batch_per_gpu``). A row is the
scenario with these fields set. It has ``step_time_ms``, the ``log`` of a training program or a
profiler's ``trace``, and optionally ``exposed_ms`` (exposed communication), ``placement`` (the GPUs
of each node, ``4+3+1``) and ``held_out``, so that it is not fitted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from dpsim.base.errors import DpsimError, ScenarioError
from dpsim.base.files import strict_csv_rows
from dpsim.disturbance import StepLog
from dpsim.scenario import Scenario, load_scenario
from dpsim.studies.calibrate.fit import MeasuredRun

STEP, LOG, TRACE = "step_time_ms", "log", "trace"
PLACEMENT = "placement"
EXPOSED, HELD_OUT = "exposed_ms", "held_out"
_OWN_COLUMNS = (STEP, LOG, TRACE, EXPOSED, HELD_OUT, "note")  # not fields of a scenario
_STEP_COLUMNS = {"step_ms", "step_s", "step_time_s", "rank"}  # of a table whose rows are steps
_MOST_BYTES = 16 * 2**20
_MOST_ROWS = 1000
_SHORTEST, _LONGEST = 1e-6, 1e6  # seconds of a step

Load = Callable[[Sequence[str]], Scenario]  # the scenario with ``key=value`` overrides
Read = Callable[[Path, Scenario], StepLog]  # a file's steps, of a run of the scenario
Readers = Mapping[str, Read]  # by column: those of LOG and TRACE


def measured_runs(
    scenario: Path, table: Path, overrides: Sequence[str] = (), readers: Readers | None = None
) -> list[MeasuredRun]:
    """Return the runs of ``table``, based on the file ``scenario``; see `runs_of_table`.

    ``overrides`` apply to all of them.
    """
    return runs_of_table(table, lambda sets: load_scenario(scenario, [*overrides, *sets]), readers)


def runs_of_table(
    table: Path, load: Load, readers: Readers | None = None, most: int = _MOST_ROWS
) -> list[MeasuredRun]:
    """Return the runs of ``table``; ``load`` returns the scenario with a row's fields set.

    A table of single steps is a run of the scenario itself.

    ``readers`` read a row's log or trace, whose path is relative to the table; None refuses both.
    Raises DpsimError with file, line and column for invalid values, and for more than ``most``
    rows.
    """
    rows = strict_csv_rows(table, _MOST_BYTES, ())
    names = rows[0][1].keys()
    if _STEP_COLUMNS & names and readers is not None:
        return [own_run(LOG, table, load(()), readers)]
    if len(rows) > most:
        raise DpsimError(f"{table}: must have at most {most:,} rows, but has {len(rows):,}")
    if not {STEP, LOG, TRACE} & names:
        raise DpsimError(
            f"{table}:1: must have the column {STEP!r}, {LOG!r} or {TRACE!r}, but has none"
        )
    reader = _Reader(table.parent, load(()), load, readers or {})
    return [reader.run(row, f"{table}:{line}") for line, row in rows]


def own_run(column: str, path: Path, scenario: Scenario, readers: Readers) -> MeasuredRun:
    """Return a run of the ``scenario`` itself by its log or trace. Raises DpsimError."""
    where = str(path)
    log = readers[column](path, scenario)
    _check(log, column, scenario, where)
    step, steps = _median(log, where)
    return MeasuredRun(scenario, step, log.exposed, steps, log.by_rank)


class _Reader(NamedTuple):
    """Makes a run from each row."""

    folder: Path
    base: Scenario
    load: Load
    readers: Readers

    def run(self, row: Mapping[str, str], where: str) -> MeasuredRun:
        sets = [
            _placement_override(self.base, value, f"{where}: {PLACEMENT}")
            if name == PLACEMENT
            else f"{name}={value}"
            for name, value in row.items()
            if name not in _OWN_COLUMNS and value.strip()
        ]
        try:
            scenario = self.load(sets)
        except ScenarioError as error:
            raise DpsimError(f"{where}: {error}") from None
        log, trace = (self._read(column, row, scenario, where) for column in (LOG, TRACE))
        stated = row.get(STEP, "").strip()
        if stated and log is not None:
            raise DpsimError(f"{where}: must have a value for {STEP} or for {LOG}, but has both")
        timed = [each for each in (log, trace) if each is not None]
        steps: tuple[float, ...] = ()
        if stated:
            step = _plausible(_number(stated) * 1e-3, f"{where}: {STEP}", stated)
        elif timed:
            step, steps = _median(timed[0], f"{where}: {TRACE if log is None else LOG}")
        else:
            rule = f"must have a value for {STEP}, {LOG} or {TRACE}"
            raise DpsimError(f"{where}: {rule}, but has none")
        exposed = _read_exposed(row.get(EXPOSED, "").strip(), trace, step, where)
        by_rank = next((each.by_rank for each in timed if each.by_rank is not None), None)
        held_out = _is_held_out(row.get(HELD_OUT, ""), where)
        return MeasuredRun(scenario, step, exposed, steps, by_rank, held_out)

    def _read(
        self, column: str, row: Mapping[str, str], scenario: Scenario, where: str
    ) -> StepLog | None:
        """Return the steps in the file that a row names in ``column``, if any."""
        name = row.get(column, "").strip()
        if not name:
            return None
        if column not in self.readers:
            raise DpsimError(f"{where}: {column}: must be left out here: state {STEP}")
        try:
            log = self.readers[column](self.folder / name, scenario)
        except DpsimError as error:
            raise DpsimError(f"{where}: {column}: {error}") from None
        _check(log, column, scenario, f"{where}: {column}")
        return log


def _check(log: StepLog, column: str, scenario: Scenario, where: str) -> None:
    """Raise DpsimError if a file does not have step times of the scenario."""
    passes, ranks = scenario.workload.gradient_accumulation, scenario.cluster.ranks
    if log.counts_passes and passes > 1:
        raise DpsimError(
            f"{where}: a progress bar may count passes or steps of {passes} passes: state {STEP}"
        )
    if column == TRACE and log.exposed is None and ranks > 1:
        raise DpsimError(f"{where}: must have kernels of NCCL for {ranks} ranks, but has none")


def _median(log: StepLog, where: str) -> tuple[float, tuple[float, ...]]:
    """Return the seconds of the median step, and of all steps if each reading is one step."""
    step = _plausible(log.median, where, f"{log.median * 1e3:.6g}")
    return step, log.seconds if log.single else ()


def _read_exposed(text: str, trace: StepLog | None, step: float, where: str) -> float | None:
    """Return the seconds of exposed communication, if measured."""
    if text and trace is not None:
        raise DpsimError(f"{where}: must have a value for {EXPOSED} or for {TRACE}, but has both")
    value = None if trace is None else trace.exposed
    if text:
        value = _number(text) * 1e-3
    if value is not None and not 0 <= value < step:
        rule = f"must be at least 0 and below the step's {step * 1e3:.6g}"
        raise DpsimError(f"{where}: {EXPOSED}: {rule}, but got {text or f'{value * 1e3:.6g}'!r}")
    return value


def _is_held_out(text: str, where: str) -> bool:
    if text.strip() not in ("", "no", "yes"):
        raise DpsimError(f"{where}: {HELD_OUT}: must be yes or no, but got {text!r}")
    return text.strip() == "yes"


def _placement_override(base: Scenario, value: str, where: str) -> str:
    """Return the override of the cluster for the given GPUs of each node."""
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


def _plausible(seconds: float, where: str, given: str) -> float:
    """Return a step's ``seconds``. Raises DpsimError if they are implausible."""
    if not seconds > 0:
        raise DpsimError(f"{where}: must be a number above 0, but got {given!r}")
    if not _SHORTEST <= seconds <= _LONGEST:
        limits = f"{_SHORTEST * 1e3:g} to {_LONGEST * 1e3:g} ms"
        raise DpsimError(f"{where}: must be a step of {limits}, but got {given!r}")
    return seconds


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan

"""Read measured steps of one's own cluster from a table of scenario fields.

The header names fields by their paths (``cluster.nodes``, ``workload.batch_per_gpu``). Each row has
their values and ``step_time_ms`` or the ``log`` of a training program, and ``exposed_ms`` if its
exposed communication was measured. ``placement`` is the GPUs of each node, ``4+3+1``. A row is the
scenario with those fields set; a row marked ``held_out`` is not fitted.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from dpsim.base.errors import DpsimError, ScenarioError
from dpsim.base.files import strict_csv_rows
from dpsim.scenario import Scenario, load_scenario
from dpsim.studies.calibrate.fit import MeasuredRun

STEP, LOG = "step_time_ms", "log"
PLACEMENT = "placement"
EXPOSED, HELD_OUT = "exposed_ms", "held_out"
_OWN = (STEP, LOG, EXPOSED, HELD_OUT, "note")  # columns that are not fields of a scenario
_MOST_BYTES = 16 * 2**20
_MOST_ROWS = 1000
_SHORTEST, _LONGEST = 1e-6, 1e6  # seconds of a step


class TimedSteps(Protocol):
    """The steps in the log of a training program, after warm-up (s)."""

    @property
    def seconds(self) -> tuple[float, ...]:
        """The readings in order."""

    @property
    def median(self) -> float:
        """The median of the readings."""

    @property
    def single(self) -> bool:
        """Whether each reading is one step."""

    @property
    def counts_passes(self) -> bool:
        """Whether the readings may be passes instead of steps."""


Load = Callable[[Sequence[str]], Scenario]  # the scenario with ``key=value`` overrides
ReadLog = Callable[[Path], TimedSteps]


def measured_runs(
    scenario: Path, table: Path, overrides: Sequence[str] = (), read_log: ReadLog | None = None
) -> list[MeasuredRun]:
    """Return the runs of ``table``, based on the file ``scenario``; see `runs_of_table`.

    ``overrides`` apply to all of them.
    """
    return runs_of_table(table, lambda sets: load_scenario(scenario, [*overrides, *sets]), read_log)


def runs_of_table(
    table: Path, load: Load, read_log: ReadLog | None = None, most: int = _MOST_ROWS
) -> list[MeasuredRun]:
    """Return the runs of ``table``, loading each by ``load`` with the row's fields set.

    ``read_log`` reads a row's log, a path relative to the table; None refuses logs. Raises
    DpsimError with file, line and column for invalid values, and for more than ``most`` rows.
    """
    rows = strict_csv_rows(table, _MOST_BYTES, ())
    if len(rows) > most:
        raise DpsimError(f"{table}: must have at most {most:,} rows, but has {len(rows):,}")
    if not {STEP, LOG} & rows[0][1].keys():
        raise DpsimError(f"{table}:1: must have the column {STEP!r} or {LOG!r}, but has neither")
    reader = _Reader(table.parent, load(()), load, read_log)
    return [reader.run(row, f"{table}:{line}") for line, row in rows]


class _Reader(NamedTuple):
    """A reader that makes a run from each row."""

    folder: Path
    base: Scenario
    load: Load
    read_log: ReadLog | None

    def run(self, row: Mapping[str, str], where: str) -> MeasuredRun:
        sets = [
            _placed(self.base, value, f"{where}: {PLACEMENT}")
            if name == PLACEMENT
            else f"{name}={value}"
            for name, value in row.items()
            if name not in _OWN and value.strip()
        ]
        try:
            scenario = self.load(sets)
        except ScenarioError as error:
            raise DpsimError(f"{where}: {error}") from None
        step, steps = self._times(row, scenario, where)
        exposed = _exposed(row.get(EXPOSED, ""), step, where)
        held_out = _is_held_out(row.get(HELD_OUT, ""), where)
        return MeasuredRun(scenario, step, exposed, steps, held_out)

    def _times(
        self, row: Mapping[str, str], scenario: Scenario, where: str
    ) -> tuple[float, tuple[float, ...]]:
        """Return the seconds of the step, and of single steps if a log has them."""
        stated, log = row.get(STEP, "").strip(), row.get(LOG, "").strip()
        if bool(stated) == bool(log):
            but = "has both" if log else "has neither"
            raise DpsimError(f"{where}: must have a value for {STEP} or for {LOG}, but {but}")
        if not log:
            return _within(_number(stated) * 1e-3, f"{where}: {STEP}", stated), ()
        if self.read_log is None:
            raise DpsimError(f"{where}: {LOG}: must be left out here: state {STEP}")
        try:
            found = self.read_log(self.folder / log)
        except DpsimError as error:
            raise DpsimError(f"{where}: {LOG}: {error}") from None
        passes = scenario.workload.gradient_accumulation
        if found.counts_passes and passes > 1:
            raise DpsimError(
                f"{where}: {LOG}: a progress bar may count passes or steps of {passes} passes: "
                f"state {STEP}"
            )
        step = _within(found.median, f"{where}: {LOG}", f"{found.median * 1e3:.6g}")
        return step, found.seconds if found.single else ()


def _exposed(text: str, step: float, where: str) -> float | None:
    """Return the seconds of exposed communication, None if they were not measured."""
    if not text.strip():
        return None
    value = _number(text) * 1e-3
    if not 0 <= value < step:
        rule = f"must be at least 0 and below the step's {step * 1e3:.6g}"
        raise DpsimError(f"{where}: {EXPOSED}: {rule}, but got {text!r}")
    return value


def _is_held_out(text: str, where: str) -> bool:
    if text.strip() not in ("", "no", "yes"):
        raise DpsimError(f"{where}: {HELD_OUT}: must be yes or no, but got {text!r}")
    return text.strip() == "yes"


def _placed(base: Scenario, value: str, where: str) -> str:
    """Return the override for a cluster with the given GPUs on each of its nodes."""
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


def _within(seconds: float, where: str, given: str) -> float:
    """Return a step's ``seconds`` if they are plausible. Raises DpsimError otherwise."""
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

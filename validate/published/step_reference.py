"""Published step times and dpsim's predictions for them.

`compare_steps` is ``dpsim validate reference`` for these tables. Each row becomes a scenario, which
is simulated as by ``dpsim run``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from dpsim.base.errors import DpsimError
from dpsim.base.shipped import shipped_json
from dpsim.base.uncertainty import PredictionInterval
from dpsim.engine import KeptJobs, prepared_by, run_scenario
from dpsim.hardware import CalibrationProfile, Parameter, Residuals
from dpsim.scenario import Scenario
from dpsim.workload import CONSTANTS, composed, constants_from, members_of
from validate.published.step_tables import (
    adaptdl,
    imagenet,
    llm,
    mlperf,
    overlap,
    scaling,
    single_gpu,
    steps,
    vtrain,
)
from validate.published.tables.csv_file import NotPredictedError, Row, read_rows
from validate.published.tables.known_steps import (
    Calibrate,
    Calibrated,
    FittedToKnown,
    ScaledToKnown,
    planned_rows,
)
from validate.published.tables.packaged import packaged_rows
from validate.published.tables.published_step import (
    PublishedStep,
    Regime,
    StepKind,
    StepTable,
)
from validate.published.tables.scenario_files import ScenarioFolder, file_name
from validate.published.tables.step_scores import Progress, Refused, StepReference, StepRow

# Fits of the compute constants without each publisher (without each model of the largest publisher
# of language models), for rows that the shipped ones are fitted to. Written by
# ``python -m tools.refits.compute_refit``.
LEFT_OUT = "left_out.json"
_NOT_KEPT = Residuals(
    counted_on="held-out rows", n=0, median_ape=0, mean_ape=0, p95_ape=0, worst_ape=0, worst_bytes=0
)
TABLES: Mapping[StepKind, StepTable] = {
    "single-gpu": single_gpu.STEP_TABLE,
    "adaptdl": adaptdl.STEP_TABLE,
    "vtrain": vtrain.STEP_TABLE,
    "scaling": scaling.STEP_TABLE,
    "overlap": overlap.STEP_TABLE,
    "imagenet": imagenet.STEP_TABLE,
    "llm": llm.STEP_TABLE,
    "mlperf": mlperf.STEP_TABLE,
    "steps": steps.STEP_TABLE,
}


def compare_steps(
    path: Path,
    kind: StepKind,
    *,
    regime: Regime = "specification",
    write_scenarios: Path | None = None,
    known: int = 4,
    progress: Progress = lambda what, done, total: None,
) -> StepReference:
    """Predict every row of the table at ``path``.

    A calibrated regime knows ``known`` rows of each series of adaptdl, vtrain and scaling. Raises
    DpsimError, with line and column, for unusable tables, and for a calibrated regime of a table
    that has none.
    """
    table = TABLES[kind]
    if regime == "calibrated" and table.known is None and not table.plans:
        raise DpsimError(f"--regime must be left out for {kind}, but got {regime}")
    rows = read_rows(path, table.required)
    result = StepReference(kind, regime)
    with _folder(write_scenarios) as folder, prepared_by(KeptJobs().prepare):
        read = list(_read(rows, table, folder, result))
        folder.check_names(read)
        known_rows = _known_of_series(read, table, known) if regime == "calibrated" else {}
        calibrate: Calibrate = FittedToKnown(folder) if table.plans else ScaledToKnown(folder)
        simulation = _Simulation(folder, table.identity, known_rows, calibrate)
        for done, step in enumerate(read, 1):
            try:
                result.every.append(simulation.step(step))
            except DpsimError as error:
                result.refused.append(_refuse(step.row, table, error))
            progress("predicting", done, len(read))
    if table.beside is not None:
        beside, notes = table.beside(result.every)
        result.beside |= beside
        result.notes += notes
    return result


def _read(
    rows: Sequence[Row], table: StepTable, folder: ScenarioFolder, result: StepReference
) -> Iterator[PublishedStep]:
    """Yield the rows that dpsim simulates; the others are added to those refused."""
    read = table.reader(rows)
    seen = _fitted_keys(table)
    for row in rows:
        try:
            step = folder.fitting(read(row))
            if table.group is not None and row.key(table.identity) in seen:
                step = unseen(step, table.group(row), folder.scenario(step))
            yield step
        except NotPredictedError as reason:
            result.refused.append(_refuse(row, table, reason))


def _fitted_keys(table: StepTable) -> frozenset[tuple[str, ...]]:
    """Return the keys of the rows of the public table that the shipped constants are fitted to."""
    rows = () if table.fitted is None else packaged_rows(table.fitted)
    return frozenset(row.key(table.identity) for row in rows)


def _refuse(row: Row, table: StepTable, reason: DpsimError) -> Refused:
    return Refused(row, row.cells(table.identity), str(reason))


def _known_of_series(
    steps: Sequence[PublishedStep], table: StepTable, count: int
) -> dict[str, Sequence[PublishedStep]]:
    """Return the known rows of each series."""
    series: dict[str, list[PublishedStep]] = {}
    for step in steps:
        series.setdefault(step.series, []).append(step)
    if table.plans:
        return {name: planned_rows(members, count) for name, members in series.items()}
    assert table.known is not None
    return {name: table.known(members) for name, members in series.items()}


class _Answer(NamedTuple):
    """The parts kept of an answer of ``dpsim run``: whole answers would fill the memory."""

    step: float
    interval: PredictionInterval | None
    memory: float
    fits: bool

    @classmethod
    def of(cls, scenario: Scenario) -> _Answer:
        """Return the answer for a scenario."""
        result = run_scenario(scenario).result
        memory, interval = result.memory, result.interval
        assert memory is not None
        ends = None if interval is None else replace(interval, samples=None)
        return cls(result.mean_step, ends, memory.held.total, memory.fits)


class _Simulation:
    """Predicts rows as ``dpsim run`` does, calibrated on the known rows of their series if any."""

    def __init__(
        self,
        folder: ScenarioFolder,
        identity: Sequence[str],
        known: Mapping[str, Sequence[PublishedStep]],
        calibrate: Calibrate,
    ) -> None:
        self._folder = folder
        self._identity = identity
        self._known = known
        self._calibrate = calibrate
        self._answers: dict[str, _Answer] = {}

    def step(self, step: PublishedStep) -> StepRow:
        """Return the row beside its prediction."""
        known = self._known.get(step.series, ())
        if any(step is other for other in known):
            return self._predict(step, step.scenario, step.constants, is_known=True)
        if not known:
            return self._predict(step, step.scenario, step.constants)
        found = self._calibrate(known, step)
        for name, text in found.files.items():
            self._folder.write(name, text)
        return self._predict(step, found.scenario, found.words, calibrated=found)

    def _predict(
        self,
        step: PublishedStep,
        content: Mapping[str, Any],
        words: str,
        *,
        calibrated: Calibrated | None = None,
        is_known: bool = False,
    ) -> StepRow:
        answer = self._answer(step, content)
        self._folder.keep(step, content)
        return StepRow(
            step,
            step.row.cells(self._identity),
            answer.step,
            answer.interval,
            words,
            "fitted on" if is_known else step.status,
            None if calibrated is None else calibrated.naive,
            None if calibrated is None else calibrated.known,
            answer.memory,
            answer.fits,
        )

    def _answer(self, step: PublishedStep, content: Mapping[str, Any]) -> _Answer:
        """Return the answer of ``dpsim run``, computed once for rows that differ only in name."""
        unnamed = {name: value for name, value in content.items() if name != "name"}
        key = json.dumps(unnamed, sort_keys=True)
        if key not in self._answers:
            self._answers[key] = _Answer.of(self._folder.scenario(step, content))
        return self._answers[key]


@contextmanager
def _folder(path: Path | None) -> Iterator[ScenarioFolder]:
    """Yield the folder that scenarios are written to, or a temporary one for their files."""
    if path is None:
        with TemporaryDirectory() as made:
            yield ScenarioFolder(Path(made), keeps=False)
        return
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DpsimError(
            f"--write-scenarios {path}: must be a folder, but: {error.strerror}"
        ) from None
    yield ScenarioFolder(path, keeps=True)


def unseen(step: PublishedStep, group: str, scenario: Scenario) -> PublishedStep:
    """Return the row, to be predicted by constants of a fit without its ``group``.

    They are written to a profile beside the row's ``scenario``, which ``dpsim run`` then uses. If
    the fit had no row of the group, the shipped constants are kept.
    """
    values = shipped_json("validate.published", LEFT_OUT).get(group)
    if values is None or "calibration" in step.scenario:
        return step
    workload, model = scenario.workload, scenario.build_model()
    generation = scenario.cluster.accelerator.architecture
    members = members_of(model, generation, workload.precision, workload.full_software)
    constants = constants_from(composed(values, members))
    profile = CalibrationProfile(
        name=f"constants without {group}",
        kind="compute",
        constants={name: Parameter(value=getattr(constants, name), unit="1") for name in CONSTANTS},
        residuals=_NOT_KEPT,
    )
    name = file_name(" ".join(["without", group, *members.values()])) + ".json"
    return replace(
        step,
        scenario={**step.scenario, "calibration": name},
        files={**step.files, name: profile.to_json()},
        constants=f"shipped, without {group}",
    )

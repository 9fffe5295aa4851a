"""Every row of a table of step times through the engine that ``dpsim run`` uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.engine import KeptJobs, prepared_by, run_scenario
from validate.published.tables.csv_file import NotPredictedError, Row
from validate.published.tables.known_steps import Calibrate, Calibrated, ScaledToKnown
from validate.published.tables.published_step import PublishedStep, StepTable
from validate.published.tables.scenario_files import ScenarioFolder
from validate.published.tables.simulated_step import SimulatedReference, SimulatedStep
from validate.published.tables.step_scores import Progress, Regime, StepKind


def compare_table(
    kind: StepKind,
    table: StepTable,
    rows: Sequence[Row],
    regime: Regime,
    write_scenarios: Path | None,
    progress: Progress,
) -> SimulatedReference:
    """Predict ``rows``, and write each one's scenario into a folder where one is named."""
    result = SimulatedReference(kind, regime=regime)
    read = list(_read(rows, table, result))
    known = _known(read, table) if regime == "calibrated" else {}
    with _folder(write_scenarios) as folder, prepared_by(KeptJobs().prepare):
        folder.check_names(read)
        simulation = _Simulation(folder, table.identity, known, ScaledToKnown(folder))
        for done, step in enumerate(read, 1):
            try:
                result.every.append(simulation.step(step))
            except DpsimError as error:
                result.refuse(step.row, table.identity, str(error))
            progress("predicting", done, len(read))
    return result


def _read(
    rows: Sequence[Row], table: StepTable, result: SimulatedReference
) -> Iterator[PublishedStep]:
    """The rows that dpsim simulates; the others join those that are refused."""
    read = table.reader(rows)
    for row in rows:
        try:
            yield read(row)
        except NotPredictedError as reason:
            result.refuse(row, table.identity, str(reason))


def _known(steps: Sequence[PublishedStep], table: StepTable) -> dict[str, Sequence[PublishedStep]]:
    """The known rows of each series."""
    assert table.known is not None
    series: dict[str, list[PublishedStep]] = {}
    for step in steps:
        series.setdefault(step.series, []).append(step)
    return {name: table.known(members) for name, members in series.items()}


class _Simulation:
    """Rows as ``dpsim run`` predicts them, calibrated on the known rows of their series if any."""

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

    def step(self, step: PublishedStep) -> SimulatedStep:
        """The row beside its prediction."""
        known = self._known.get(step.series, ())
        if any(step is other for other in known):
            return self._predicted(step, step.scenario, step.constants, is_known=True)
        if not known:
            return self._predicted(step, step.scenario, step.constants)
        found = self._calibrate(known, step)
        for name, text in found.files.items():
            self._folder.write(name, text)
        return self._predicted(step, found.scenario, found.words, calibrated=found)

    def _predicted(
        self,
        step: PublishedStep,
        content: Mapping[str, Any],
        words: str,
        *,
        calibrated: Calibrated | None = None,
        is_known: bool = False,
    ) -> SimulatedStep:
        run = run_scenario(self._folder.scenario(step, content))
        self._folder.keep(step, content)
        memory = run.result.memory
        assert memory is not None
        return SimulatedStep(
            step,
            step.row.cells(self._identity),
            run.step_time,
            run.result.interval,
            words,
            "fitted on" if is_known else step.status,
            None if calibrated is None else calibrated.naive,
            None if calibrated is None else calibrated.known,
            memory.held.total,
            memory.fits,
        )


@contextmanager
def _folder(path: Path | None) -> Iterator[ScenarioFolder]:
    """The folder that scenarios are written to, or one for the files beside them alone."""
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

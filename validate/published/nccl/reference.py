"""`dpsim validate reference` for tables of collectives: their rows beside predictions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dpsim.network.libraries.nccl import Note
from validate.published.nccl.regimes import REGIMES
from validate.published.nccl.scores import Score, scored, summarise, summary
from validate.published.nccl.sources import assign
from validate.published.nccl.table import Kind, read_table
from validate.published.tables.published_step import Regime
from validate.published.tables.step_scores import constants_of, rows_json


@dataclass(frozen=True, slots=True)
class Reference:
    """The scored rows of one table.

    ``counted`` rows make up the errors. ``apart`` are rows of doubtful quality, ``fitted`` the
    sizes that the calibration was given. ``notes`` are texts that were not understood, with their
    machine.
    """

    kind: Kind
    regime: Regime
    counted: list[Score]
    apart: list[Score]
    fitted: list[Score]
    notes: list[tuple[Note, str]]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of the command; errors are fractions, times in us."""
        return {
            "schema_version": 1,
            "kind": self.kind,
            "regime": self.regime,
            "overall": self.overall,
            "groups": self.groups,
            **rows_json(self.counted, self.apart, self.fitted, summary),
            "not_understood": [
                {**asdict(note), "machine": machine} for note, machine in self.notes
            ],
            "constants": self.constants,
        }

    @property
    def overall(self) -> dict[str, float | int] | None:
        """The errors over all rows that count; None if there are none."""
        return summary(self.counted) if self.counted else None

    @property
    def groups(self) -> dict[str, dict[str, float | int]]:
        """The errors by group."""
        return summarise(self.counted)

    @property
    def constants(self) -> dict[str, int]:
        """The number of rows predicted with each source of constants."""
        return constants_of([*self.counted, *self.apart, *self.fitted])


def compare(
    path: Path,
    kind: Kind,
    regime: Regime = "specification",
    *,
    progress: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> Reference:
    """Predict every row of the table at ``path``.

    ``progress`` is called with the current activity, the number of machines done and their total.
    Raises DpsimError for tables that cannot be used.
    """
    cases = read_table(path, kind)
    machines = len({case.machine_name for case in cases})
    counted: list[Score] = []
    apart: list[Score] = []
    fitted: list[Score] = []
    for done, machine in enumerate(assign(cases), 1):
        # Separately, so that rows of doubtful quality do not refine constants of rows that count.
        for is_ok, target in ((True, counted), (False, apart)):
            part = [case for case in machine.cases if (case.quality == "ok") == is_ok]
            if not part:
                continue
            for predicted in REGIMES[regime](part, machine.known, machine.neighbours):
                scores = scored(predicted, machine.words)
                target += [score for score in scores if score.counts]
                fitted += [score for score in scores if not score.counts]
        progress("predicting", done, machines)
    for rows in (counted, apart, fitted):
        rows.sort(key=lambda score: score.line)
    notes = sorted({(note, case.machine_name) for case in cases for note in case.notes})
    return Reference(kind, regime, counted, apart, fitted, notes)

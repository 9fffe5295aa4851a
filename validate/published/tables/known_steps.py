"""Rows predicted from known ones of their series: how ``--regime calibrated`` calibrates.

`Calibrate` is the seam: it is given the known rows of a series and one that is not, and says what
stands under ``calibration`` in that row's scenario.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from dpsim.base.errors import DpsimError
from dpsim.engine import prepare, scale_to
from validate.published.tables.published_step import PublishedStep
from validate.published.tables.scenario_files import ScenarioFolder, file_name


class Calibrated(NamedTuple):
    """What the known rows of a series say of another one.

    ``scenario`` is that row's, with its ``calibration``, beside ``files``. ``naive`` is its step
    (s) at the time that each sample takes in the row ``known``. ``words`` say what was calibrated.
    """

    scenario: Mapping[str, Any]
    files: Mapping[str, str]
    naive: float
    known: str
    words: str


Calibrate = Callable[[Sequence[PublishedStep], PublishedStep], Calibrated]


@dataclass(frozen=True, slots=True)
class ScaledToKnown:
    """Scales compute times until the engine takes as long for a known row as was measured.

    Of several known rows the one counts whose passes are most like the row's.
    """

    folder: ScenarioFolder
    _scales: dict[str, float | None] = field(default_factory=dict)

    def __call__(self, known: Sequence[PublishedStep], step: PublishedStep) -> Calibrated:
        """The row with compute times scaled so."""
        base = min(known, key=lambda other: _unlike(other, step))
        naive = base.measured * step.work / base.work
        scale = self._scale(base)
        if scale is None:
            words = f"{step.constants}, not scaled to a known row: its step is too short"
            return Calibrated(step.scenario, step.files, naive, base.row_id, words)
        words = f"{step.constants}, compute scaled to a known row"
        scenario, files = _scaled(step, scale, f"row {base.row_id}")
        return Calibrated(scenario, files, naive, base.row_id, words)

    def _scale(self, base: PublishedStep) -> float | None:
        """The factor on compute times by a known row; None where none makes its step so short."""
        if base.row_id not in self._scales:
            try:
                job = prepare(self.folder.scenario(base))
                self._scales[base.row_id] = scale_to(job, base.measured)
            except DpsimError:
                self._scales[base.row_id] = None
        return self._scales[base.row_id]


def _unlike(one: PublishedStep, other: PublishedStep) -> tuple[bool, bool]:
    """How unlike their passes are: another batch changes what a kernel reaches."""
    mine, theirs = one.scenario["workload"], other.scenario["workload"]
    differs = [
        mine.get(name, 1) != theirs.get(name, 1)
        for name in ("batch_per_gpu", "gradient_accumulation")
    ]
    return differs[0], differs[1]


def _scaled(
    step: PublishedStep, scale: float, source: str
) -> tuple[dict[str, Any], Mapping[str, str]]:
    """The scenario with compute times scaled, by its own profile where it has one."""
    profile = step.scenario.get("calibration")
    if profile is None:
        calibration = {"compute_scale": scale, "source": source}
        return {**step.scenario, "calibration": calibration}, step.files
    name = f"{file_name(step.row_id)}.profile.json"
    text = json.dumps({**json.loads(step.files[profile]), "compute_scale": scale}, indent=1)
    return {**step.scenario, "calibration": name}, {**step.files, name: text}

"""Prediction of rows from known ones of their series, for ``--regime calibrated``.

`Calibrate` is the interface: it takes the known rows of a series and an unknown one, and gives the
``calibration`` for that row's scenario.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dpsim.base.errors import DpsimError
from dpsim.engine import prepare, scale_to
from dpsim.hardware import CalibrationProfile, KnownRun
from dpsim.studies.calibrate import MeasuredRun, fit_constants, profile_of
from validate.published.tables.published_step import PublishedStep
from validate.published.tables.scenario_files import ScenarioFolder, file_name


class Calibrated(NamedTuple):
    """A row calibrated on the known rows of its series.

    ``scenario`` is the row's, with its ``calibration``, beside ``files``. ``naive`` is its step (s)
    if each sample takes the same time as in the row ``known``. ``words`` describe the calibration.
    """

    scenario: Mapping[str, Any]
    files: Mapping[str, str]
    naive: float
    known: str
    words: str


Calibrate = Callable[[Sequence[PublishedStep], PublishedStep], Calibrated]


@dataclass(frozen=True, slots=True)
class ScaledToKnown:
    """Scales compute times until the engine reproduces the measured time of a known row.

    If several rows are known, the one with the most similar passes is used.
    """

    folder: ScenarioFolder
    _scales: dict[str, float | None] = field(default_factory=dict)

    def __call__(self, known: Sequence[PublishedStep], step: PublishedStep) -> Calibrated:
        """Return the row with compute times scaled to the known row."""
        base = min(known, key=lambda other: _unlike(other, step))
        naive = base.measured * step.work / base.work
        scale = self._scale(base)
        if scale is None:
            words = f"{step.constants}, not scaled to a known row: its step is too short"
            return Calibrated(step.scenario, step.files, naive, base.row_id, words)
        words = f"{step.constants}, compute scaled to a known row"
        base_run = place_of(base).model_dump()
        scenario, files = _scale_compute(step, scale, base_run, f"row {base.row_id}")
        return Calibrated(scenario, files, naive, base.row_id, words)

    def _scale(self, base: PublishedStep) -> float | None:
        """Return the factor on compute times for a known row; None if its step is too short."""
        if base.row_id not in self._scales:
            try:
                job = prepare(self.folder.scenario(base))
                self._scales[base.row_id] = scale_to(job, base.measured)
            except DpsimError:
                self._scales[base.row_id] = None
        return self._scales[base.row_id]


def _unlike(one: PublishedStep, other: PublishedStep) -> list[bool]:
    """Return how two rows' passes differ: another batch changes a kernel's efficiency."""
    mine, theirs = one.scenario["workload"], other.scenario["workload"]
    return [
        mine.get(name, 1) != theirs.get(name, 1)
        for name in ("batch_per_gpu", "gradient_accumulation")
    ]


def _scale_compute(
    step: PublishedStep, scale: float, known: Mapping[str, int], source: str
) -> tuple[dict[str, Any], Mapping[str, str]]:
    """Return the scenario with compute times scaled, in its own profile if it has one."""
    profile = step.scenario.get("calibration")
    if profile is None:
        calibration = {"compute_scale": scale, "source": source, "known": [known]}
        return {**step.scenario, "calibration": calibration}, step.files
    name = f"{file_name(step.row_id)}.profile.json"
    scaled = {**json.loads(step.files[profile]), "compute_scale": scale, "known": [known]}
    text = json.dumps(scaled, indent=1)
    return {**step.scenario, "calibration": name}, {**step.files, name: text}


@dataclass(frozen=True, slots=True)
class FittedToKnown:
    """Fits the constants of a cluster's steps to the known rows of a series, by the engine."""

    folder: ScenarioFolder
    _profiles: dict[str, str] = field(default_factory=dict)  # as text, named by all rows

    def __call__(self, known: Sequence[PublishedStep], step: PublishedStep) -> Calibrated:
        """Return the row with the constants of its series."""
        base = min(known, key=lambda other: _apart(place_of(other), place_of(step)))
        naive = base.measured * step.work / base.work
        if step.series not in self._profiles:
            self._profiles[step.series] = self._fit(known).to_json()
        name = f"{file_name(f'steps of {step.series}')}.json"
        files = {**step.files, name: self._profiles[step.series]}
        words = f"{step.constants}, step constants fitted to {len(known)} known rows"
        return Calibrated({**step.scenario, "calibration": name}, files, naive, base.row_id, words)

    def _fit(self, known: Sequence[PublishedStep]) -> CalibrationProfile:
        runs = [MeasuredRun(self.folder.scenario(step), step.measured) for step in known]
        name = f"steps of {known[0].series}"
        return profile_of(fit_constants(runs), name, runs[0].scenario.profile)


def planned_rows(series: Sequence[PublishedStep], count: int) -> Sequence[PublishedStep]:
    """Return the ``count`` most informative rows of a series, or all if there are no more.

    One GPU at its smallest and its largest batch, one full node and two full nodes at a middle
    batch, then the rows farthest from the known ones.
    """
    counted = [step for step in series if step.status == "counted"]
    places = {id(step): place_of(step) for step in counted}
    batches = [np.log2(place.batch) for place in places.values()]
    middle = float(np.median(batches)) if batches else 0.0
    fullest = max((place.gpus_per_node for place in places.values()), default=1)

    def pick(nodes: int, per_node: int, batch: float) -> PublishedStep | None:
        fitting = [
            step
            for step in counted
            if (places[id(step)].nodes, places[id(step)].gpus_per_node) == (nodes, per_node)
            and step.gpus == nodes * per_node
        ]
        off = {id(step): abs(np.log2(places[id(step)].batch) - batch) for step in fitting}
        return min(fitting, key=lambda step: off[id(step)], default=None)

    planned: list[PublishedStep] = []
    wanted = ((1, 1, -1.0), (1, 1, 99.0), (1, fullest, middle), (2, fullest, middle))
    for nodes, per_node, batch in wanted:
        step = pick(nodes, per_node, batch)
        is_new = not any(step is other for other in planned)
        if step is not None and is_new and len(planned) < count:
            planned.append(step)
    while len(planned) < min(count, len(counted)):
        rest = [step for step in counted if not any(step is other for other in planned)]
        far = [
            min((_apart(places[id(step)], places[id(other)]) for other in planned), default=0.0)
            for step in rest
        ]
        planned.append(rest[int(np.argmax(far))])
    return planned


def place_of(step: PublishedStep) -> KnownRun:
    """Return where a row ran, and with which batch."""
    cluster = step.scenario["cluster"]
    parts = cluster.get("groups", [cluster])
    return KnownRun(
        nodes=sum(part["nodes"] for part in parts),
        gpus_per_node=max(part["gpus_per_node"] for part in parts),
        batch=step.scenario["workload"]["batch_per_gpu"],
    )


def _apart(one: KnownRun, other: KnownRun) -> float:
    return math.hypot(*one.doublings_from(other))

"""Collective models with constants refitted to a machine's measured collectives.

A model's time is a part without bytes, from its latencies, and the rest, from its rates. Each part
is multiplied by a constant of the machine, and each call costs another constant:

    t = entry + latency x t_0 + bytes x (t - t_0)

The constants are fitted to tables of measured sizes (non-negative least squares of relative
errors), with the model on the measured number of ranks, and are assumed to hold for other numbers.
The residuals of the table with the nearest number of ranks multiply the time of each size, so that
measured sizes are predicted as measured.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.errors import DpsimError
from dpsim.base.uncertainty import ModelError
from dpsim.collectives import Traffic
from dpsim.hardware import CalibrationProfile, Measured
from dpsim.network import CollectiveModel, Outcome
from dpsim.scenario import Scenario
from dpsim.strategy.aggregation import Setting, Turns

_LEAST_SIZES = 3
_SAME = 1e-6  # relative
_SMALLEST = 4  # bytes a rank: a model's time for them is its part without bytes


@dataclass(frozen=True, slots=True)
class Constants:
    """``entry`` in s; ``latency`` and ``bytes`` multiply the model's two parts."""

    entry: float
    latency: float
    bytes: float

    def seconds(self, without_bytes: FloatArray, whole: FloatArray) -> FloatArray:
        """Return the refitted time for ``whole`` s, of which ``without_bytes`` are latency."""
        rest = whole - without_bytes
        return np.asarray(self.entry + self.latency * without_bytes + self.bytes * rest)


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """Measured times over fitted ones, by size, both in logarithms; sizes increase."""

    sizes: FloatArray
    ratios: FloatArray

    @classmethod
    def of(cls, fitted: CollectiveModel, table: Measured) -> Residuals:
        """Return the residuals of ``table`` under ``fitted``, a model on equally many ranks."""
        rows = dict(sorted(zip(table.sizes_bytes, table.times_s, strict=True)))
        pairs = [
            (size, fitted.seconds_from_common_start(size), seconds)
            for size, seconds in rows.items()
        ]
        # A single rank sends nothing: there is no time to multiply.
        ratios = [seconds / own if own > 0 and seconds > 0 else 1.0 for _, own, seconds in pairs]
        sizes = [max(size, 1) for size in rows]
        return cls(np.log(np.array(sizes, dtype=float)), np.log(np.array(ratios)))

    def at(self, nbytes: int) -> float:
        """Return the ratio at a size: interpolated between measured sizes, constant beyond them."""
        return float(np.exp(np.interp(np.log(max(nbytes, 1)), self.sizes, self.ratios)))


class RefittedModel(CollectiveModel):
    """``base`` with the constants of a machine, which change only its times.

    It has no times of single messages, because the constants apply to whole collectives.
    """

    def __init__(
        self, base: CollectiveModel, constants: Constants, residuals: Residuals | None = None
    ) -> None:
        self.base = base
        self.conditions = base.conditions
        self.constants = constants
        self.residuals = residuals
        self.network = base.network
        self.itemsize = base.itemsize
        self.members = base.members
        self.saved = base.saved
        self._known: dict[int, float] = {}

    def _finish(self, starts: FloatArray, nbytes: int) -> Outcome:
        first, stretch = float(starts.min()), self._stretch(nbytes)
        found = self.base.finish(first + (starts - first) / stretch, nbytes)
        return self._restored(found, first, stretch)

    def _finish_after(self, starts: FloatArray, nbytes: int, refilled_at: float) -> Outcome:
        first, stretch = float(starts.min()), self._stretch(nbytes)
        refilled = first + (refilled_at - first) / stretch
        found = self.base.finish_after(first + (starts - first) / stretch, nbytes, refilled)
        return self._restored(found, first, stretch)

    def _stretch(self, nbytes: int) -> float:
        """Return refitted over base seconds, if all ranks enter together."""
        whole = self._base_seconds(nbytes)
        if not whole:
            return 1.0
        empty = min(self._base_seconds(_SMALLEST), whole)
        refitted_s = float(self.constants.seconds(np.array(empty), np.array(whole)))
        return refitted_s / whole * (1.0 if self.residuals is None else self.residuals.at(nbytes))

    def _restored(self, found: Outcome, first: float, stretch: float) -> Outcome:
        """Return an outcome of starts that were compressed by ``stretch``, stretched again.

        Messages that early ranks send before the last one starts thus take the refitted time too.
        """
        finishes = first + stretch * (found.finishes - first)
        return replace(
            found, finishes=finishes, refilled_at=first + stretch * (found.refilled_at - first)
        )

    def _base_seconds(self, nbytes: int) -> float:
        """Return the base's seconds if all ranks enter together, computed once per size."""
        if nbytes not in self._known:
            self._known[nbytes] = self.base.seconds_from_common_start(nbytes)
        return self._known[nbytes]

    def loads(self, nbytes: int) -> FloatArray:
        return self.base.loads(nbytes)

    def model_error(self, nbytes: int) -> ModelError:
        """Return the base's error, which the refit only reduces."""
        return self.base.model_error(nbytes)

    @property
    def nearest_machines(self) -> tuple[str, ...] | None:
        return self.base.nearest_machines

    def sustained(self) -> float:
        return self.base.sustained()

    @property
    def joins_all(self) -> bool:
        return self.base.joins_all

    @property
    def ends(self) -> IntArray:
        return self.base.ends

    def crossings(self) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        return self.base.crossings()

    def of_group(self, ranks: IntArray) -> CollectiveModel:
        """Return the base's model of the group, refitted with the same constants."""
        return RefittedModel(self.base.of_group(ranks), self.constants, self.residuals)

    def traffic(self, nbytes: int) -> Traffic:
        return self.base.traffic(nbytes)

    def algorithm_for(self, nbytes: int) -> str:
        return self.base.algorithm_for(nbytes)


def refitted(
    models: Mapping[str, CollectiveModel],
    measured: Mapping[int, Mapping[str, CollectiveModel]],
    tables: Sequence[Measured],
) -> dict[str, CollectiveModel]:
    """Return ``models`` by operation, refitted if ``tables`` have measurements of them.

    ``measured`` are the same models on the number of ranks of each table.
    """
    by_operation: dict[str, list[Measured]] = defaultdict(list)
    for table in tables:
        by_operation[table.operation].append(table)
    found = dict(models)
    for operation, own in by_operation.items():
        if operation in models:
            bases = [measured[table.ranks][operation] for table in own]
            constants = constants_of(bases, own)
            ranks = models[operation].network.ranks
            # By ratio, so that twice and half as many ranks are equally far away.
            nearest = min(range(len(own)), key=lambda at: abs(math.log(own[at].ranks / ranks)))
            residuals = Residuals.of(RefittedModel(bases[nearest], constants), own[nearest])
            found[operation] = RefittedModel(models[operation], constants, residuals)
    return found


def constants_of(bases: Sequence[CollectiveModel], tables: Sequence[Measured]) -> Constants:
    """Return the constants with which the bases best match the times of their tables.

    Raises DpsimError for fewer than three sizes in all.
    """
    empty: list[float] = []
    whole: list[float] = []
    times: list[float] = []
    for base, table in zip(bases, tables, strict=True):
        nothing = base.seconds_from_common_start(_SMALLEST)
        for size, seconds in zip(table.sizes_bytes, table.times_s, strict=True):
            taken = base.seconds_from_common_start(size)
            empty.append(min(nothing, taken))
            whole.append(taken)
            times.append(seconds)
    if len(set(whole)) < _LEAST_SIZES:
        raise DpsimError(
            f"calibration: {tables[0].operation} must have been measured at {_LEAST_SIZES} or more "
            f"sizes, but was at {len(set(whole))}"
        )
    return _fitted(np.array(empty), np.array(whole), np.array(times))


def measured_models(
    scenario: Scenario,
    calibration: CalibrationProfile,
    library: str,
    models: Mapping[str, Turns],
    setting_of: Callable[[Scenario], Setting],
) -> dict[str, Turns]:
    """Return ``models`` of a library, refitted to the collectives that ``calibration`` measured.

    The aggregation's own models on the measured number of ranks serve as the base of the fit;
    ``setting_of`` gives their setting. Models that differ from step to step are not refitted.
    """
    tables = [each for each in calibration.tables if library in (each.backend, "ideal")]
    if not tables:
        return dict(models)
    plain = scenario.model_copy(update={"calibration": "catalogue"})
    measured = {}
    for table in tables:
        small = resized(plain, table.ranks, table.hosts)
        aggregation = small.strategy.aggregation
        if table.servers is not None and aggregation.updates_elsewhere:
            aggregation = aggregation.model_copy(update={"servers": table.servers})
        bases = aggregation.collectives(setting_of(small))
        measured[table.ranks] = {name: turns[0] for name, turns in bases.items()}
    first = {name: turns[0] for name, turns in models.items() if len(turns) == 1}
    found = refitted(first, measured, tables)
    return {**models, **{name: (model,) for name, model in found.items()}}


def _fitted(empty: FloatArray, whole: FloatArray, times: FloatArray) -> Constants:
    # With one number of ranks latency is constant, so that it cannot be told from ``entry``.
    calls = np.ones(len(times)) if np.ptp(empty) > _SAME * empty.max() else np.zeros(len(times))
    columns = np.stack([calls, empty, whole - empty], axis=1)
    # Rows are divided by their measured time, so that small messages count as much as large ones,
    # and columns by their maximum, because seconds and factors differ by orders of magnitude.
    relative = columns / times[:, None]
    scale = relative.max(axis=0)
    scale[scale == 0] = 1.0
    entry, latency, per_byte = (_least_squares(relative / scale) / scale).tolist()
    return Constants(entry, latency, per_byte)


def _least_squares(columns: FloatArray) -> FloatArray:
    """Return the non-negative weights for which the columns add up closest to ones.

    Solves for each subset of columns with non-zero weights: seven for three columns.
    """
    ones = np.ones(len(columns))
    count = columns.shape[1]
    best = np.zeros(count)
    least = float(ones @ ones)
    for chosen in product((True, False), repeat=count):
        free = np.flatnonzero(chosen)
        if not len(free):
            continue
        part, *_ = np.linalg.lstsq(columns[:, free], ones, rcond=None)
        left = columns[:, free] @ part - ones
        cost = float(left @ left)
        if (part >= 0).all() and cost < least:
            least = cost
            best = np.zeros(count)
            best[free] = part
    return best


def resized(scenario: Scenario, ranks: int, hosts: int) -> Scenario:
    """Return ``scenario`` on ``ranks`` GPUs, spread equally over ``hosts`` nodes.

    Raises DpsimError if its nodes do not have that many.
    """
    cluster = scenario.cluster
    if ranks == cluster.ranks:
        return scenario
    per_node = None if cluster.node is None else cluster.node.gpus
    # If nodes have a single GPU, a host with several ranks counts as several nodes.
    nodes = ranks if per_node == 1 else hosts
    if per_node is None or ranks % nodes or ranks // nodes > per_node:
        raise DpsimError(
            f"calibration: collectives were measured by {ranks} ranks on {hosts} hosts, which the "
            "scenario's nodes do not have: use a profile of such nodes"
        )
    values = {**dict(cluster), "nodes": nodes, "gpus_per_node": ranks // nodes}
    changed = type(cluster).model_validate(values)
    return scenario.model_copy(update={"cluster": changed, "testbed": None})

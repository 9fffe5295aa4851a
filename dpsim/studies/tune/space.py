"""The space of configurations: the values of several fields, in every applicable combination."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, cast

from dpsim.base.errors import DpsimError
from dpsim.base.units import DATA, exact
from dpsim.engine import memory_use
from dpsim.network.libraries import chooses
from dpsim.scenario import Override, Plain, Scenario, shape_of
from dpsim.strategy.aggregation import Aggregation
from dpsim.strategy.compression import Codec, CompressionConfig
from dpsim.studies.tune.dimension import Dimension, defaults, dimension, parse_over
from dpsim.studies.tune.limits import Limits
from dpsim.studies.tune.objective import Objective

# The index of the chosen value by path, for the fields that apply.
Choice: TypeAlias = tuple[tuple[str, int], ...]
# The indices of the values that a search may take, by path of the field.
Allowed: TypeAlias = Mapping[str, Sequence[int]]

_ALGORITHMS = ("ring", "halving-doubling", "hierarchical", "double-binary-tree", "auto")
_OVERLAPS = ("buckets", "sequential", "mg-wfbp", "priority")
_MEBI = 2.0**20
_BUCKETS = (1, 5, 25, 100)  # MiB
_SYNCS = ("bsp", "ssp", "local-sgd")
_CODECS = ("none", "cast", "int8", "powersgd")
_PLAIN_SYNC, _PLAIN_CODEC = ("bsp",), ("none",)
_CHECKPOINTS = ("none", "selective", "full")
_BATCHES = (0.25, 0.5, 1, 2, 4)
_LEARNERS = (1, 2, 4)
_SHARES = (4, 2, 1)


@dataclass(frozen=True, slots=True)
class Space:
    """The dimensions; those that decide whether others apply come first."""

    dimensions: tuple[Dimension, ...]

    @classmethod
    def of(cls, dimensions: Iterable[Dimension]) -> Space:
        """Return the space of ``dimensions``, given in any order."""
        return cls(tuple(sorted(dimensions, key=lambda each: each.order)))

    @property
    def size(self) -> int:
        """The number of different choices."""
        # Multiply instead of listing the choices, of which there may be millions.
        rest = [each for each in self.dimensions if each not in self.switches]
        total = 0
        for values in self.switch_choices():
            total += math.prod(len(each.values) for each in rest if each.applies(values))
        return total

    @property
    def switches(self) -> list[Dimension]:
        """The dimensions that decide whether others apply."""
        return [
            each
            for each in self.dimensions
            if any(each.decides(other) for other in self.dimensions)
        ]

    @property
    def all(self) -> Allowed:
        """The numbers of all values."""
        return {each.path: range(len(each.values)) for each in self.dimensions}

    def choices(self, allowed: Allowed | None = None) -> Iterator[Choice]:
        """Yield every choice of ``allowed`` values once, the last dimension varying fastest."""
        return self._choices(self.dimensions, self.all if allowed is None else allowed)

    def choice(self, numbers: Mapping[str, int]) -> Choice:
        """Return the choice by a number for every path, without fields that do not apply."""
        chosen: Choice = ()
        for each in self.dimensions:
            if each.applies(self.plain(chosen)):
                chosen = (*chosen, (each.path, numbers[each.path]))
        return chosen

    def overrides(self, choice: Choice) -> list[Override]:
        """Return the chosen values, in the order in which they are to be set."""
        by_path = {each.path: each for each in self.dimensions}
        return [by_path[path].values[number] for path, number in choice]

    def plain(self, choice: Choice) -> dict[str, Plain]:
        """Return the chosen values by path, as in a file."""
        return {override.path: override.value.plain() for override in self.overrides(choice)}

    def _choices(
        self, dimensions: Sequence[Dimension], allowed: Allowed, chosen: Choice = ()
    ) -> Iterator[Choice]:
        if not dimensions:
            yield chosen
            return
        first, *rest = dimensions
        if not first.applies(self.plain(chosen)):
            yield from self._choices(rest, allowed, chosen)
            return
        for number in allowed[first.path]:
            yield from self._choices(rest, allowed, (*chosen, (first.path, number)))

    def switch_choices(self) -> Iterator[dict[str, Plain]]:
        """Yield the values of each choice of the switches."""
        return map(self.plain, self._choices(self.switches, self.all))


def space(scenario: Scenario, over: Iterable[str], objective: Objective, limits: Limits) -> Space:
    """Return the space of ``scenario``: the fields in ``over``, by default `default_values`.

    Each of ``over`` is ``key=a,b,c``. Raises DpsimError for a field that is given twice, or that
    applies with none of the values.
    """
    asked: dict[str, tuple[Override, ...]] = {}
    for text in over:
        path, values = parse_over(text)
        if path in asked:
            raise DpsimError(f"--over {path}: must be given once, but got two")
        asked[path] = values
    if asked:
        result = Space.of(
            dimension(path, values, scenario, asked=True) for path, values in asked.items()
        )
    else:
        listed = default_values(scenario, objective, limits)
        result = Space.of(
            dimension(path, defaults(path, values), scenario) for path, values in listed.items()
        )
    _check(result)
    return result


def _check(result: Space) -> None:
    chosen = list(result.switch_choices())
    for each in result.dimensions:
        # Skip default fields, which may not apply to this scenario.
        if not each.asked or each.kinds is None:
            continue
        if any(each.applies(values) for values in chosen):
            continue
        kinds = ", ".join(sorted(each.kinds)) or "nothing"
        raise DpsimError(
            f"--over {each.path}: must be a field where {each.switch} is {kinds}, but that is "
            f"{each.scenario_kind}"
        )


def default_values(
    scenario: Scenario, objective: Objective, limits: Limits
) -> dict[str, tuple[object, ...]]:
    """Return the default search: for each path the scenario's own value and usual alternatives.

    If the objective is the step time, batch, learners and nodes stay fixed, since reducing any
    of them shortens the step. If it has a target, synchronisation and codecs for which the number
    of steps to the target is unknown are left out. If accuracy is limited, all those with an
    unknown loss of accuracy are left out.
    """
    values = _strategy(scenario, objective, limits)
    if objective.name == "step-time":
        values |= _checkpoints(scenario, [scenario.workload.batch_per_gpu])
    else:
        values |= _checkpoints(scenario, _batches(scenario)) | _scale(scenario, limits)
    return {path: several for path, several in values.items() if len(set(several)) > 1}


def _strategy(
    scenario: Scenario, objective: Objective, limits: Limits
) -> dict[str, tuple[object, ...]]:
    strategy = scenario.strategy
    aggregation, overlap = strategy.aggregation, strategy.overlap
    own_size = overlap.size_of_buckets or _MEBI * 25
    stage = aggregation.sharding_stage
    codecs: tuple[str, ...] = _known_steps(_CODECS) if objective.to_target else _CODECS
    syncs: tuple[str, ...] = _PLAIN_SYNC if objective.to_target else _SYNCS
    if limits.accuracy_penalty is not None:
        codecs, syncs = _PLAIN_CODEC, _PLAIN_SYNC
    sizes = sorted({own_size, *(_MEBI * size for size in _BUCKETS)})
    # The scenario's own kinds come first, because the search starts there.
    return {
        "strategy.aggregation.kind": (aggregation.kind, "allreduce", "sharded"),
        **_algorithms(aggregation),
        "strategy.aggregation.stage": (1, 2, 3) if stage is None else (stage, 1, 2, 3),
        "strategy.overlap.kind": (overlap.kind, *_OVERLAPS),
        "strategy.overlap.bucket_size": tuple(_size(size) for size in sizes),
        "strategy.compression.kind": (strategy.compression.kind, *codecs),
        "strategy.sync.kind": (strategy.sync.kind, *syncs),
    }


def _known_steps(codecs: Iterable[str]) -> tuple[str, ...]:
    """Return the codecs that do not change the number of steps to a target."""
    models = cast("dict[str, type[Codec]]", shape_of(CompressionConfig).kinds())
    return tuple(kind for kind in codecs if not models[kind].takes_more_steps)


def _size(nbytes: float) -> str:
    return f"{nbytes / _MEBI:g} MiB" if nbytes % _MEBI == 0 else exact(nbytes, DATA)


def _algorithms(aggregation: Aggregation) -> dict[str, tuple[object, ...]]:
    """Return the algorithms of the all-reduce; none if a library chooses its own."""
    current = aggregation.all_reduce
    if current is None:
        return {"strategy.aggregation.algorithm": _ALGORITHMS}
    if chooses(current.library):
        return {}
    return {"strategy.aggregation.algorithm": (current.algorithm, *_ALGORITHMS)}


def _checkpoints(scenario: Scenario, batches: list[int]) -> dict[str, tuple[object, ...]]:
    """Return settings of checkpointing to try; none if all ``batches`` fit without it."""
    workload = scenario.workload
    # Keep a share of the blocks unchanged: it was chosen by hand.
    if not isinstance(workload.checkpoint, str) or workload.checkpointing is not None:
        return {}
    if workload.recompute is None and memory_use(scenario).changed(batch=max(batches)).fits:
        return {}
    return {"workload.checkpoint": (workload.checkpoint, *_CHECKPOINTS)}


def _scale(scenario: Scenario, limits: Limits) -> dict[str, tuple[object, ...]]:
    """Return values for batch, learners and nodes; nodes up to the limit or the file's number."""
    workload = scenario.workload
    values: dict[str, tuple[object, ...]] = {
        "workload.batch_per_gpu": tuple(_batches(scenario)),
        "workload.learners_per_gpu": (workload.learners_per_gpu, *_LEARNERS),
    }
    if scenario.testbed is None and not scenario.cluster.groups:
        values["cluster.nodes"] = tuple(_nodes(scenario.cluster.nodes, limits.nodes))
    return values


def _batches(scenario: Scenario) -> list[int]:
    current = scenario.workload.batch_per_gpu
    return sorted({max(1, round(factor * current)) for factor in _BATCHES})


def _nodes(current: int, most: int | None) -> list[int]:
    counts = {max(1, current // share) for share in _SHARES}
    if most is None:
        return sorted(counts)
    while 2 * max(counts) <= most:
        counts.add(2 * max(counts))
    return sorted(number for number in counts if number <= most) or [most or current]

"""The tuned file: its document, its own values in a space, and values its fields refuse."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from dpsim.base.errors import DpsimError, ScenarioError
from dpsim.engine import time_to_target
from dpsim.scenario import (
    Document,
    Override,
    Scenario,
    apply_overrides,
    load_yaml,
    validate,
)
from dpsim.studies.kept_scale import kept_scale
from dpsim.studies.sweep import line_about, scenario_key
from dpsim.studies.tune.dimension import Dimension
from dpsim.studies.tune.objective import Objective
from dpsim.studies.tune.search import Numbers
from dpsim.studies.tune.space import Space


def without_sweep(path: str | os.PathLike[str], overrides: Iterable[str]) -> Document:
    """Load the file without its sweep.

    Compute times that are scaled to a measured step keep their scale when others change.
    """
    document = apply_overrides(load_yaml(path), overrides, Scenario)
    assert isinstance(document.root.value, dict)
    entries = {key: node for key, node in document.root.value.items() if key != "sweep"}
    document = replace(document, root=replace(document.root, value=entries))
    return kept_scale(document)


def check_target(scenario: Scenario, objective: Objective) -> None:
    """Raise DpsimError for an objective with a target whose steps are unknown for the model."""
    # The plain strategy is used to check the model alone: a strategy with unknown steps is refused
    # by itself, and others may be known.
    plain = scenario.model_copy(update={"strategy": type(scenario.strategy)()})
    found, optimizer = time_to_target(plain, 1.0), scenario.workload.optimizer
    if objective.to_target and (found is None or optimizer not in found.task.optimizers):
        raise DpsimError(
            f"--objective {objective.name}: must have a model whose steps to a target are known "
            "(docs/convergence.md), "
            f"but got {scenario.workload.model!r} with {optimizer}"
        )


def checked(found: Space, document: Document) -> Space:
    """Return the space without default values that their own field refuses.

    Raises ScenarioError if the user requested them.
    """
    kept, refused = [], []
    for each in found.dimensions:
        problems = [_problem(each, number, found, document) for number in range(len(each.values))]
        refused += [problem for problem in problems if problem and each.asked]
        kept.append(
            each.kept(
                value for value, problem in zip(each.values, problems, strict=True) if not problem
            )
        )
    if refused:
        raise ScenarioError("\n".join(refused))
    return Space.of(each for each in kept if each.values)


def _problem(each: Dimension, number: int, found: Space, document: Document) -> str | None:
    """Return the error about a value itself, in any file; None if there is none."""
    value = each.values[number]
    try:
        changed = apply_overrides(document, [*switched(each, found), value], Scenario)
    except ScenarioError as error:  # a path through a missing part
        return str(error)
    try:
        validate(changed, Scenario)
    except ScenarioError as error:
        return line_about(str(error), each.path, (value.place, value.value.key_place))
    return None


def switched(each: Dimension, found: Space) -> list[Override]:
    """Return the value of another dimension that makes the field apply.

    Empty if the file's own value does so.
    """
    if each.applies({}):
        return []
    switch = next(other for other in found.dimensions if other.decides(each))
    return [
        next(value for value in switch.values if each.applies({switch.path: value.value.plain()}))
    ]


def own_values(found: Space, document: Document) -> Numbers | None:
    """Return the file's own values as numbers in the space, None if it is outside.

    Fields that do not apply get their first value.
    """
    # Compared by scenario, since one value can be written in many ways.
    own = scenario_key(validate(document, Scenario))
    numbers: Numbers = {}
    for each in found.dimensions:
        same = (
            number
            for number, value in enumerate(each.values)
            if not each.applies({}) or _key(document, value) == own
        )
        number = next(same, None)
        if number is None:
            return None
        numbers[each.path] = number
    return numbers


def _key(document: Document, value: Override) -> str | None:
    try:
        return scenario_key(validate(apply_overrides(document, [value], Scenario), Scenario))
    except ScenarioError:
        return None

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
    # Check the model with the plain strategy. A strategy with unknown steps is refused when it is
    # evaluated, and the steps of others may be known.
    plain = scenario.model_copy(update={"strategy": type(scenario.strategy)()})
    to_target, optimizer = time_to_target(plain, 1.0), scenario.workload.optimizer
    if objective.to_target and (to_target is None or optimizer not in to_target.task.optimizers):
        raise DpsimError(
            f"--objective {objective.name}: must have a model whose steps to a target are known "
            "(docs/convergence.md), "
            f"but got {scenario.workload.model!r} with {optimizer}"
        )


def without_refused_values(space: Space, document: Document) -> Space:
    """Return the space without default values that their own field refuses.

    Raises ScenarioError if the user requested them.
    """
    kept, refused = [], []
    for each in space.dimensions:
        problems = [_problem(each, number, space, document) for number in range(len(each.values))]
        refused += [problem for problem in problems if problem and each.asked]
        kept.append(
            each.with_values(
                value for value, problem in zip(each.values, problems, strict=True) if not problem
            )
        )
    if refused:
        raise ScenarioError("\n".join(refused))
    return Space.of(each for each in kept if each.values)


def _problem(each: Dimension, number: int, space: Space, document: Document) -> str | None:
    """Return the error about a value itself, in any file; None if there is none."""
    value = each.values[number]
    try:
        changed = apply_overrides(document, [*switch_values(each, space), value], Scenario)
    except ScenarioError as error:  # a path through a missing part
        return str(error)
    try:
        validate(changed, Scenario)
    except ScenarioError as error:
        return line_about(str(error), each.path, (value.place, value.value.key_place))
    return None


def switch_values(each: Dimension, space: Space) -> list[Override]:
    """Return the value of another dimension that makes the field apply.

    The list is empty if the file's own value does so.
    """
    if each.applies({}):
        return []
    switch = next(other for other in space.dimensions if other.decides(each))
    return [
        next(value for value in switch.values if each.applies({switch.path: value.value.plain()}))
    ]


def own_values(space: Space, document: Document) -> Numbers | None:
    """Return the file's own values as numbers in the space, None if it is outside.

    Fields that do not apply get their first value.
    """
    # Compare the scenarios, because one value can be written in many ways.
    own_key = scenario_key(validate(document, Scenario))
    numbers: Numbers = {}
    for each in space.dimensions:
        same = (
            number
            for number, value in enumerate(each.values)
            if not each.applies({}) or _key(document, value) == own_key
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

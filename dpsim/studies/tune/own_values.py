"""The file that is tuned: its document, its own values in a space, and values it cannot have."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace

from dpsim.base.errors import DpsimError, ScenarioError
from dpsim.engine import calibrated, fitted_factor, time_to_target
from dpsim.scenario import (
    Document,
    Override,
    Scenario,
    apply_overrides,
    load_yaml,
    validate,
)
from dpsim.studies.sweep import scenario_key
from dpsim.studies.tune.dimension import Dimension
from dpsim.studies.tune.objective import Objective
from dpsim.studies.tune.search import Numbers
from dpsim.studies.tune.space import Space


def without_sweep(path: str | os.PathLike[str], overrides: Iterable[str]) -> Document:
    """The file without its sweep.

    Compute times that are scaled to a measured step keep their scale when others change.
    """
    document = apply_overrides(load_yaml(path), overrides, Scenario)
    assert isinstance(document.root.value, dict)
    alone = {key: node for key, node in document.root.value.items() if key != "sweep"}
    document = replace(document, root=replace(document.root, value=alone))
    scenario = validate(document, Scenario)
    if scenario.fitted_to is None:
        return document
    # In place of the measured step, to which every other configuration would be scaled as well.
    scale = fitted_factor(calibrated(scenario))
    return apply_overrides(document, [Override.of("calibration", scale, "calibration")], Scenario)


def check_target(scenario: Scenario, objective: Objective) -> None:
    """Raises DpsimError for an objective to a target whose steps the model does not know."""
    # With the plain strategy this asks about the model alone: a strategy with which the steps are
    # not known is refused by itself, and others may be known.
    plain = scenario.model_copy(update={"strategy": type(scenario.strategy)()})
    found, optimizer = time_to_target(plain, 1.0), scenario.workload.optimizer
    if objective.to_target and (found is None or optimizer not in found.task.optimizers):
        raise DpsimError(
            f"--objective {objective.name}: must have a model whose steps to a target are known "
            "(docs/convergence.md), "
            f"but got {scenario.workload.model!r} with {optimizer}"
        )


def checked(found: Space, document: Document) -> Space:
    """The space without values that nobody asked for and their own field refuses.

    Raises ScenarioError for those asked for.
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
    """What is said against a value itself, wherever it stands; None where nothing is."""
    value = each.values[number]
    try:
        changed = apply_overrides(document, [*switched(each, found), value], Scenario)
    except ScenarioError as error:  # a path through what is not there
        return str(error)
    try:
        validate(changed, Scenario)
    except ScenarioError as error:
        # What is said of other places is of values that do not go together, and others may go with
        # this one.
        starts = tuple(
            f"{place}: {each.path}{end}"
            for place in (value.place, value.value.key_place)
            for end in (":", ".", "[")
        )
        return next((line for line in str(error).splitlines() if line.startswith(starts)), None)
    return None


def switched(each: Dimension, found: Space) -> list[Override]:
    """The value of another dimension that gives the field its meaning.

    Nothing where the file's own value does so.
    """
    if each.applies({}):
        return []
    switch = next(other for other in found.dimensions if other.decides(each))
    return [
        next(value for value in switch.values if each.applies({switch.path: value.value.plain()}))
    ]


def own_values(found: Space, document: Document) -> Numbers | None:
    """The file's own values as numbers in the space, None where it is not in it.

    Fields that mean nothing there have their first value.
    """
    # By what the scenario is, since one value can be written in many ways.
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

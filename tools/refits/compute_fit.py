"""Fit the compute constants to rows, with priors, and return them in dpsim's form."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.workload import composed
from tools.refits.block_fit import Block, FitResult, fit_blocks
from tools.refits.compute_work import RowWork, Work

PRIORS = Path(__file__).with_name("compute_priors.yaml")
_FULL_WEIGHT_ROWS = 12  # rows of a publisher's model beyond which more have no more weight
# Part, member and name of a constant.
Place = tuple[str, str, str]
Values = dict[str, dict[str, dict[str, float]]]


@dataclass(frozen=True, slots=True)
class PublishedWork:
    """A row: its work, measured seconds, and the group that is left out with it.

    ``family`` is the family of its errors; ``plain`` its work without stated software; ``trained``
    the names of its model and GPU, and the GPU's generation.
    """

    work: RowWork
    measured: float
    group: str
    model: str
    kind: str
    family: str
    plain: RowWork
    plain_family: str
    trained: tuple[str, str, str]


class Fit(NamedTuple):
    """Fitted constants by part, member and name, and their relative standard errors."""

    values: Values
    errors: Values
    result: FitResult


@cache
def priors() -> dict[str, Any]:
    """Return the prior knowledge of the constants."""
    from ruamel.yaml import YAML

    loaded: dict[str, Any] = YAML(typ="safe", pure=True).load(PRIORS.read_text(encoding="utf-8"))
    return loaded


def is_fitted(name: str, entry: Mapping[str, Any], only: Collection[str] = ()) -> bool:
    """Return whether a constant is fitted, or assumed; ``only`` these names if there are any."""
    return "spread" in entry and (not only or name in only)


def assumed_values() -> Values:
    """Return all constants before the fit."""
    return {
        part: {
            member: {name: float(entry["value"]) for name, entry in table.items()}
            for member, table in members.items()
        }
        for part, members in priors()["parts"].items()
    }


def fit(
    rows: Sequence[PublishedWork],
    start: Fit | None = None,
    evaluations: int = 40,
    held: Values | None = None,
    only: Collection[str] = (),
) -> Fit:
    """Fit all constants to the measured seconds of the rows' steps.

    With names in ``only``, other constants are ``held`` at these values.
    """
    work = Work.of([row.work for row in rows])
    blocks, places = _blocks(rows, only)
    kept = assumed_values() if held is None else held
    fixed = _fixed_columns(rows, kept, only)

    def seconds(values: Mapping[str, FloatArray]) -> FloatArray:
        constants = dict(fixed)
        for block, value in values.items():
            name = block.split(".")[1]
            constants[name] = constants.get(name, 1.0) * value
        return work.seconds(constants)

    measured = np.array([row.measured for row in rows])
    names = [(row.group, row.model) for row in rows]
    count = Counter(names)
    # The square root, since weights multiply residuals, whose squares add up.
    noise = priors()["noise"]
    weights = np.array(
        [
            min(1.0, _FULL_WEIGHT_ROWS / count[name]) ** 0.5 / float(noise[row.kind])
            for name, row in zip(names, rows, strict=True)
        ]
    )
    begin = None if start is None else start.result.values
    result = fit_blocks(blocks, seconds, measured, weights, evaluations, start=begin)
    values, errors = deepcopy(kept), Values()
    for block in blocks:
        relative = result.spreads[block.name] * (
            (1 - result.values[block.name]) if block.fraction else 1.0
        )
        for index, (part, member, name) in enumerate(places[block.name]):
            if index:
                values[part][member][name] = float(result.values[block.name][index])
                errors.setdefault(part, {}).setdefault(member, {})[name] = float(relative[index])
    return Fit(values, errors, result)


def predict(rows: Sequence[PublishedWork], values: Values) -> FloatArray:
    """Return the seconds of each row by these constants."""
    work = Work.of([row.work for row in rows])
    each = [composed(values, row.work.members) for row in rows]
    return work.seconds(_columns(each))


def _columns(each: Sequence[Mapping[str, float]]) -> dict[str, FloatArray]:
    """Return constants of rows as columns; a board of unknown power keeps its clock."""
    names = {name for found in each for name in found}
    neutral = {"clock_power": 0.0}
    return {
        name: np.array([found.get(name, neutral.get(name, 1.0)) for found in each])
        for name in names
    }


def _blocks(
    rows: Sequence[PublishedWork], only: Collection[str]
) -> tuple[list[Block], dict[str, list[Place]]]:
    """Return the unknowns, the value that each row reads, and their places.

    The first value of a block is 1 and belongs to no member: rows without such a constant read it.
    """
    blocks, places = [], {}
    for part, members in priors()["parts"].items():
        names = sorted({name for table in members.values() for name in table})
        for name in names:
            for share in (False, True):
                fitted = [
                    member
                    for member, table in members.items()
                    if name in table
                    and is_fitted(name, table[name], only)
                    and bool(table[name].get("share")) == share
                ]
                if fitted:
                    key = f"{part}.{name}"
                    blocks.append(_block(key, part, name, fitted, rows, share=share))
                    places[key] = [("", "", ""), *((part, member, name) for member in fitted)]
    return blocks, places


def _block(
    key: str,
    part: str,
    name: str,
    fitted: Sequence[str],
    rows: Sequence[PublishedWork],
    *,
    share: bool,
) -> Block:
    table = priors()["parts"][part]
    # Missing constants are 1; a share of 1 is outside the range of logits.
    value = [1 - 1e-6 if share else 1.0, *(float(table[each][name]["value"]) for each in fitted)]
    spread = [1e-3, *(float(table[each][name]["spread"]) for each in fitted)]
    which = [
        1 + fitted.index(row.work.members[part]) if row.work.members[part] in fitted else 0
        for row in rows
    ]
    return Block(key, np.array(value), np.array(spread), np.array(which, dtype=np.int64), share)


def _fixed_columns(
    rows: Sequence[PublishedWork], kept: Values, only: Collection[str]
) -> dict[str, FloatArray]:
    """Return the constants that are not fitted, one number per row."""
    fixed = {
        part: {
            member: {
                name: kept[part][member][name]
                for name, entry in table.items()
                if not is_fitted(name, entry, only)
            }
            for member, table in members.items()
        }
        for part, members in priors()["parts"].items()
    }
    return _columns([composed(fixed, row.work.members) for row in rows])

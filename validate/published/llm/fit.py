"""Fits the constants of transformers to rows, with priors, and gives them as dpsim has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.workload import TransformerEfficiency, standing_for
from validate.published.llm.rows import SETTINGS
from validate.published.llm.work import RowWork, Work
from validate.published.tables import Block, constants_file, fit_blocks

# Where constants stand that all rows share.
EVERY = "every"
REFERENCE_KERNELS = "2023"  # the year that others are measured against
_ENOUGH = 150.0  # rows from which on more rows weigh no more against priors

Values = Mapping[str, Mapping[str, Mapping[str, float]]]


@dataclass(frozen=True)
class Constants:
    """Fitted values by part, member and name, and their relative standard errors.

    Parts are those of ``transformers.yaml``: shared, generations, execution, kernels and unfused.
    """

    values: Values
    errors: Values

    def efficiency(self, generation: str, execution: str, kernels: str) -> TransformerEfficiency:
        """What dpsim computes with."""
        measured_on = standing_for(generation)
        found = dict(_fixed(measured_on))
        for part, member in _members_of(generation, execution, kernels).items():
            for name, value in self.values[part].get(member, {}).items():
                # A constant is a product: kernels and execution multiply what the generation has.
                found[name] = found.get(name, 1.0) * value
        return TransformerEfficiency(**found, measured_on=measured_on)


def fit(rows: Sequence[RowWork], measured: FloatArray) -> Constants:
    """Fits all constants to the measured seconds of the rows' steps."""
    priors = constants_file(SETTINGS)["priors"]
    work = Work.of(rows)
    blocks = list(_blocks(rows, priors))
    fixed = [_fixed(standing_for(row.generation)) for row in rows]

    # Each name is one number a row, as the fitted ones are.
    known = {name: np.array([each[name] for each in fixed]) for name in fixed[0]}

    def seconds(values: Mapping[str, FloatArray]) -> FloatArray:
        found = dict(known)
        for block, value in values.items():
            name = block.split(".")[1]
            found[name] = found.get(name, np.ones(len(rows))) * value
        return work.seconds(found)

    noise = float(priors["row_noise"]) * float(np.sqrt(max(len(rows) / _ENOUGH, 1.0)))
    fitted = fit_blocks(blocks, seconds, measured, noise)
    values: dict[str, dict[str, dict[str, float]]] = {}
    errors: dict[str, dict[str, dict[str, float]]] = {}
    for block in blocks:
        part, name = block.name.split(".")
        members = priors["members"][part]
        found = fitted.values[block.name]
        # Of a share the error is that of its logit.
        relative = fitted.spreads[block.name] * ((1 - found) if block.fraction else 1.0)
        for member, value, error in zip(members, found, relative, strict=True):
            values.setdefault(part, {}).setdefault(member, {})[name] = float(value)
            errors.setdefault(part, {}).setdefault(member, {})[name] = float(error)
    return Constants(values, errors)


def _blocks(rows: Sequence[RowWork], priors: Mapping[str, Any]) -> Iterator[Block]:
    """The unknowns, and whose value each row reads."""
    members_of = [_members_of(row.generation, row.execution, row.kernels) for row in rows]
    for part, table in priors["parts"].items():
        members = priors["members"][part]
        which = np.array([members.index(each[part]) for each in members_of], dtype=np.int64)
        for name, entry in table.items():
            yield Block(
                f"{part}.{name}",
                _for_members(entry["value"], members),
                _for_members(entry["spread"], members),
                which,
                fraction=bool(entry.get("share", False)),
            )


def _members_of(generation: str, execution: str, kernels: str) -> dict[str, str]:
    """Whose constants count, in each part; graphs are compiled too.

    What kernels of a year do not fuse, a compiler does.
    """
    eager = execution == "eager"
    return {
        "shared": EVERY,
        "generations": standing_for(generation),
        "execution": "eager" if eager else "compile",
        "kernels": kernels,
        "unfused": kernels if eager else REFERENCE_KERNELS,
    }


def _fixed(generation: str) -> dict[str, float]:
    """The constants that are not fitted."""
    fixed = constants_file(SETTINGS)["priors"]["fixed"]
    return {
        "launch": float(fixed["launch"]["value"]),
        "clock_power": float(fixed["clock_power"]["value"]),
        "watts": float(fixed["watts"][generation]["value"]),
    }


def _for_members(value: Any, members: Sequence[str]) -> FloatArray:
    """One number for all members, or one for each."""
    each = [value[member] if isinstance(value, Mapping) else value for member in members]
    return np.array(each, dtype=float)

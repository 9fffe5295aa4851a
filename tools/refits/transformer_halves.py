"""How the constants of transformers do on kinds of rows that no fit saw.

Prints a table for ``docs/accuracy.md``: half of the sources by a fit on the other half and the
reverse, GPU generations, lengths, sizes, checkpointing, models and years left out, and each
generation by the other's constants, which is what GPUs take that nobody measured. What a row's
network leaves exposed is the engine's. Run ``python -m tools.refits.transformer_halves``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from dpsim.base.arrays import BoolArray, FloatArray
from dpsim.workload import TransformerEfficiency
from tools.refits.transformer_fit import fit, fitted_rows, works_of
from tools.refits.transformer_work import RowWork, Work
from validate.published.llm import TABLE, Constants
from validate.published.tables import PublishedStep, packaged_rows

_NUMBERS = [each.name for each in fields(TransformerEfficiency) if each.name != "measured_on"]


@dataclass(frozen=True, eq=False)
class Table:
    """The rows of quality ok, what they ask of the engine, and how long they took (s)."""

    rows: Sequence[PublishedStep]
    works: Sequence[RowWork]
    measured: FloatArray

    @classmethod
    def read(cls) -> Table:
        """The public table."""
        rows = fitted_rows(packaged_rows(TABLE))
        measured = np.array([row.measured for row in rows], dtype=float)
        return cls(rows, works_of(rows), measured)

    def text(self, name: str) -> np.typing.NDArray[np.str_]:
        """A column of all rows."""
        return np.array([step.row.text(name) for step in self.rows])

    def number(self, name: str) -> FloatArray:
        """A column of all rows as numbers."""
        return np.array([step.row.number(name) for step in self.rows], dtype=float)

    def fitted_without(self, tested: BoolArray) -> Constants:
        """The constants by all other rows."""
        kept = np.flatnonzero(~tested).tolist()
        return fit([self.works[index] for index in kept], self.measured[kept])

    def errors(
        self, tested: BoolArray, constants: Constants, generation: str | None = None
    ) -> FloatArray:
        """Predicted over measured, less 1, by the constants of a ``generation`` if one is given."""
        works = [self.works[index] for index in np.flatnonzero(tested).tolist()]
        found = [
            constants.efficiency(generation or work.generation, work.execution, work.kernels)
            for work in works
        ]
        values: Mapping[str, FloatArray] = {
            name: np.array([getattr(each, name) for each in found]) for name in _NUMBERS
        }
        return np.asarray(Work.of(works).seconds(values) / self.measured[tested] - 1)


def splits(table: Table) -> Iterator[tuple[str, BoolArray]]:
    """Names of rows and which they are; the fit sees the others."""
    sources = sorted({*table.text("source").tolist()})
    # By name and not by draw: nobody chose, and the next run has the same halves.
    half = np.isin(table.text("source"), sources[::2])
    hopper = np.array([work.generation == "hopper" for work in table.works])
    gated = np.array(["mpt" not in model for model in table.text("model").tolist()])
    whole = table.text("act_ckpt") == "full"
    several = table.number("gpus") > table.number("gpus_per_node")
    length, parameters = table.number("seq_len"), table.number("params")
    yield "every second source, by name", half
    yield "the other half", ~half
    yield "H100", hopper
    yield "A100", ~hopper
    yield "more than 4,096 tokens a sequence", length > 4096
    yield "fewer than 1,024 tokens", length < 1024
    yield "beyond one node", several
    yield "more than 8 G parameters", parameters > 8e9
    yield "fewer than 1 G parameters", parameters < 1e9
    yield "full checkpointing", whole
    yield "no full checkpointing", ~whole
    yield "LLaMAs", gated
    yield "kernels of 2022", table.number("year") < 2023


def line(name: str, errors: FloatArray) -> str:
    """A line of the table: n, median, mean, worst, and the median with its sign."""
    absolute = np.abs(errors)
    cells = [np.median(absolute), absolute.mean(), absolute.max()]
    shown = " | ".join(f"{cell:.1%}".replace("%", " %") for cell in cells)
    bias = f"{np.median(errors):+.1%}".replace("%", " %")
    return f"| {name} | {len(errors)} | {shown} | {bias} |"


def main() -> None:
    """Print the table."""
    table = Table.read()
    print("| rows, fitted on all others | n | median | mean | worst | bias |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name, tested in splits(table):
        print(line(name, table.errors(tested, table.fitted_without(tested))))
    for name, own, other in (("H100", "hopper", "ampere"), ("A100", "ampere", "hopper")):
        tested = np.array([work.generation == own for work in table.works])
        errors = table.errors(tested, table.fitted_without(tested), other)
        print(line(f"{name} by the other's constants", errors))


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    main()

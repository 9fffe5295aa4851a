"""Published numbers that people quote, and threads that asked why, beside dpsim's predictions.

`python -m tools.quoted_numbers` prints the two tables of ``docs/accuracy.md`` from
``quoted_numbers.yaml`` beside the published tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from csv import DictWriter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from ruamel.yaml import YAML

from dpsim import Scenario, simulate
from dpsim.base.uncertainty import ENDS
from dpsim.engine import Result
from dpsim.scenario import Document, apply_overrides, validate
from validate.published import compare, compare_steps
from validate.published.tables.csv_file import read_rows
from validate.published.tables.packaged import packaged_path

FILE = "quoted_numbers.yaml"


class Quoted(NamedTuple):
    """A published number beside its prediction and the interval, in seconds, bytes or a factor.

    ``measured`` is None if nobody published a figure.
    """

    entry: Mapping[str, Any]
    source: str
    measured: float | None
    predicted: float
    low: float
    high: float

    @property
    def is_inside(self) -> bool | None:
        """Whether the published number lies inside the interval; None if there is none."""
        return None if self.measured is None else self.low <= self.measured <= self.high

    @property
    def verdict(self) -> str:
        """Whether it is inside, for a table."""
        return {None: "", True: "inside", False: "outside"}[self.is_inside]

    @property
    def cells(self) -> tuple[str, str, str]:
        """Prediction, published number, and interval, in the unit that people quote."""
        scale, unit, digits = self._unit
        # Bandwidth falls as time grows, so its ends are swapped.
        ends = sorted(scale(end) for end in (self.low, self.high))
        interval = " to ".join(f"{end:.{digits}f}" for end in ends)
        measured = "none" if self.measured is None else f"{scale(self.measured):.{digits}f}"
        return f"{scale(self.predicted):.{digits}f} {unit}", measured, interval

    @property
    def _unit(self) -> tuple[Callable[[float], float], str, int]:
        """How to scale a value of this row, its unit and the digits to show."""
        entry = self.entry
        if "ranks" in entry:
            # An all-reduce: seconds become bus bandwidth.
            moved = 2 * (entry["ranks"] - 1) / entry["ranks"] * entry["nbytes"]
            return lambda value: moved / value / 1e9, "GB/s", 0
        if entry.get("quantity") == "memory":
            return lambda value: value / 1e9, "GB", 1
        if "change" in entry:
            # The ratio of two steps.
            return lambda value: value, "times", 1
        return (lambda value: value * 1e3, "ms", 0) if self.predicted < 1 else (float, "s", 2)


def quoted(part: str) -> Iterator[Quoted]:
    """Predict every entry of one part of the file, numbers or threads."""
    for entry in YAML(typ="safe").load(packaged_path(FILE))[part]:
        yield _predict_row(entry) if "row" in entry else _predict_scenario(entry)


def _predict_row(entry: Mapping[str, Any]) -> Quoted:
    """Predict a row of a published table as ``dpsim validate reference`` does."""
    wanted = dict(entry["row"])
    file = wanted.pop("file")
    step_kind = wanted.pop("kind", None)
    # `compare` takes a file, so write one that holds only the quoted row.
    with TemporaryDirectory() as folder:
        rows = [
            row.values
            for row in read_rows(packaged_path(file), wanted)
            if all(row.text(name) == text for name, text in wanted.items())
        ]
        path = Path(folder) / file
        with path.open("w", newline="", encoding="utf-8") as out:
            writer = DictWriter(out, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        source = rows[0]["source"]
        if step_kind is not None:
            (row,) = compare_steps(path, step_kind).every
            assert row.interval is not None
            ends = row.interval.low, row.interval.high
            return Quoted(entry, source, row.measured, row.predicted, *ends)
        found = compare(path, "nccl-tests")
        (score,) = [*found.counted, *found.apart]
        ends = score.interval.low, score.interval.high
        entry = {**entry, "nbytes": score.nbytes}
        return Quoted(entry, source, score.measured, score.predicted, *ends)


def _predict_scenario(entry: Mapping[str, Any]) -> Quoted:
    """Predict a scenario: its step, its memory, or the factor of a step by a change."""
    before = _answer(entry["scenario"], entry.get("set", ()))
    source = entry.get("source", "")
    assert before.interval is not None
    if entry.get("quantity") == "memory":
        assert before.memory is not None
        within = before.memory.interval
        assert within is not None
        held = before.memory.held.total
        return Quoted(entry, source, entry["measured"], held, within.low, within.high)
    if "change" not in entry:
        ends = before.interval.low, before.interval.high
        return Quoted(entry, source, entry["measured"], before.mean_step, *ends)
    after = _answer(entry["scenario"], entry["change"])
    assert after.interval is not None
    assert before.interval.samples is not None
    assert after.interval.samples is not None
    # Both runs draw the same errors, so those they share cancel in the ratio.
    low, high = np.quantile(after.interval.samples / before.interval.samples, ENDS)
    factor = after.mean_step / before.mean_step
    return Quoted(entry, source, entry.get("factor"), factor, float(low), float(high))


def _answer(content: Mapping[str, Any], change: Sequence[str]) -> Result:
    document = apply_overrides(Document.of(content, FILE), change, Scenario)
    return simulate(validate(document, Scenario))


HEADS = {
    "numbers": "| number | predicted | published | interval | | source, cause |",
    "threads": "| thread | asked | dpsim | reported | interval | | says |",
}


def table(part: str, rows: Sequence[Quoted]) -> str:
    """Return the table of one part in Markdown."""
    lines = [HEADS[part], "| --- " * (HEADS[part].count("|") - 1) + "|"]
    for row in rows:
        entry = row.entry
        if part == "threads":
            first = f"[{entry['thread']}]({entry['link']}) | {entry['asked']}"
            last = entry["answer"]
        else:
            first = entry["what"]
            last = "; ".join(filter(None, (row.source, entry.get("cause"))))
        lines.append(f"| {' | '.join((first, *row.cells, row.verdict, last))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    for each in HEADS:
        print(table(each, [*quoted(each)]), end="\n\n")

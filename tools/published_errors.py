"""Predict published measurements, and write the summary that the dashboard shows.

python -m tools.published_errors                  # all tables, in minutes
python -m tools.published_errors vtrain imagenet  # only these; keeps the others
python -m tools.published_errors nccl             # all tables of collectives, read together
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from app.published import KEPT, TABLES
from dpsim.base.terminal import narrate, write_whole
from dpsim.report.figures.measured_figure import Pair
from tools.catalogue_errors import DATA
from tools.catalogue_errors import TABLES as NCCL_TABLES
from validate.published import StepKind, compare, compare_steps
from validate.published.nccl.scores import Score, summary, transport_group
from validate.published.nccl.table import kind_of

MOST_POINTS = 400  # of a table; evenly chosen
# Tables of collectives, by where their machines communicate.
_PLACES = {
    "nccl-nvlink": "single-node NVLink",
    "nccl-pcie": "single-node PCIe",
    "nccl-xgmi": "single-node xGMI",
    "nccl-between": "multi-node",
}
# Tables of steps in which a row of each series may be known.
CALIBRATED = ("llm", "mlperf", "steps")


def compare_table(kind: StepKind, folder: Path) -> dict[str, Any]:
    """Predict a table of published steps, and summarise it."""
    file = folder / TABLES[kind][0]
    shipped = compare_steps(file, kind)
    calibrated: Any = None
    if kind in CALIBRATED:
        again = compare_steps(file, kind, regime="calibrated")
        assert again.overall is not None
        calibrated = {**again.overall, "naive": again.to_json()["naive"]}
    return _entry(file.name, shipped.overall, calibrated, shipped.counted)


def compare_collectives(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the tables of collectives by where machines communicate, leaving each machine out."""
    rows: dict[str, list[Score]] = {kind: [] for kind in _PLACES}
    for name in NCCL_TABLES:
        for score in compare(folder / name, kind_of(folder / name)).counted:
            group = transport_group(score.case.machine, score.case.op)
            for kind, place in _PLACES.items():
                if group.startswith(place):
                    rows[kind].append(score)
    return {kind: _entry(TABLES[kind][0], summary(own), None, own) for kind, own in rows.items()}


def _entry(file: str, errors: Any, calibrated: Any, rows: Sequence[Any]) -> dict[str, Any]:
    # Rounded up, so that no more than the limit remain.
    every = max(1, -(-len(rows) // MOST_POINTS))
    pairs = [_pair(row) for row in rows[::every]]
    return {
        "file": file,
        "errors": errors,
        "calibrated": calibrated,
        "rows": [pair for pair in pairs if pair is not None],
    }


def _pair(row: Any) -> Pair | None:
    measured, predicted, interval = row.measured, row.predicted, row.interval
    ends = () if interval is None else (interval.low, interval.high)
    if measured is None or predicted is None:
        return None
    if hasattr(row, "identity"):
        identity = row.identity
    else:  # a case at one size of a collective
        identity = {**row.case.identity, "bytes": f"{row.nbytes:,.0f}"}
    # The point's hover text: longer ones would not fit the figure.
    name = ", ".join(str(value) for value in identity.values() if value)[:90]
    return Pair(name, _short(measured), _short(predicted), *map(_short, ends))


def _short(value: float) -> float:
    # More digits would lengthen the file without moving any point.
    return float(f"{value:.5g}")


def main(kinds: list[str]) -> None:
    """Compute the tables of ``kinds``, all if empty, and write the whole file."""
    tables = (
        json.loads(KEPT.read_text(encoding="utf-8"))["tables"] if kinds and KEPT.exists() else {}
    )
    for kind in kinds or [*(kind for kind in TABLES if kind not in _PLACES), "nccl"]:
        if kind == "nccl":
            anew = compare_collectives(DATA)
        else:
            anew = {kind: compare_table(cast("StepKind", kind), DATA)}
        tables |= anew
        for name, table in anew.items():
            narrate(f"{name}: {table['errors']}")
    # Write one line per table in a fixed order, so that recomputing a table changes one line.
    ordered = {kind: tables[kind] for kind in TABLES if kind in tables}
    lines = ",\n".join(
        f" {json.dumps(kind)}: {json.dumps(table, ensure_ascii=False)}"
        for kind, table in ordered.items()
    )
    write_whole(KEPT, f'{{"schema_version": 1, "tables": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main(sys.argv[1:])

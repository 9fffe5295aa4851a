"""Predictions beside published measurements, summed up.

Computed by ``python -m app.published``, which takes minutes, and kept.

python -m app.published                 # all tables
python -m app.published vtrain imagenet # these anew, the others as they are
"""

from __future__ import annotations

import json
import sys
from functools import cache
from pathlib import Path
from typing import Any

from dpsim.report.figures.measured_figure import Pair

KEPT = Path(__file__).with_name("published.json")
MOST_POINTS = 400  # of a table; evenly chosen

# The table of each kind, what is compared, and its unit.
TABLES = {
    "adaptdl": ("adaptdl_steptime.csv", "step time", "s"),
    "vtrain": ("vtrain_steptime.csv", "step time", "s"),
    "scaling": ("scaling.csv", "step time", "s"),
    "overlap": ("scaling.csv", "step time", "s"),
    "single-gpu": ("single_gpu.csv", "step time", "s"),
    "imagenet": ("imagenet_records.csv", "step time", "s"),
    "nccl-tests": ("nccl_tests.csv", "time of a collective", "s"),
    "nccl-single-node": ("nccl_single_node.csv", "time of a collective", "s"),
    "llm": ("llm_fsdp.csv", "step time", "s"),
    "mlperf": ("mlperf_training.csv", "step time", "s"),
    "steps": ("steps_2.csv", "step time", "s"),
}


# Tables of steps in which a row of each series may be known.
CALIBRATED = ("llm", "mlperf", "steps")

# What people call each.
TITLES = {
    "adaptdl": "small clusters (AdaptDL)",
    "vtrain": "GPT on A100 (vTrain)",
    "scaling": "scaling of published systems",
    "overlap": "overlapping communication",
    "single-gpu": "single GPUs",
    "imagenet": "records of ImageNet",
    "nccl-tests": "nccl-tests between nodes",
    "nccl-single-node": "nccl-tests in one node",
    "llm": "language models, sharded",
    "mlperf": "MLPerf Training",
    "steps": "one GPU to some hundred",
}


@cache
def published() -> dict[str, dict[str, Any]]:
    """By kind of table.

    Errors over all rows that count, and some of its rows as `Pair`.
    """
    content: dict[str, dict[str, Any]] = json.loads(KEPT.read_text(encoding="utf-8"))["tables"]
    return content


def compared(kind: str, file: Path) -> dict[str, Any]:
    """A table of published measurements, predicted anew and summed up."""
    from validate.published import STEP_KINDS, compare, compare_steps

    found: Any = compare_steps(file, kind) if kind in STEP_KINDS else compare(file, kind)  # type: ignore[arg-type]
    rows = found.counted
    calibrated: Any = None
    if kind in CALIBRATED:
        calibrated = compare_steps(file, kind, regime="calibrated")  # type: ignore[arg-type]
    # Rounded up, so that no more are left than may be.
    every = max(1, -(-len(rows) // MOST_POINTS))
    pairs = [_pair(row) for row in rows[::every]]
    return {
        "file": file.name,
        "errors": found.overall,
        "calibrated": None
        if calibrated is None
        else calibrated.overall | {"naive": calibrated.to_json()["naive"]},
        "rows": [pair for pair in pairs if pair is not None],
    }


def _pair(row: Any) -> Pair | None:
    measured, predicted, interval = row.measured, row.predicted, row.interval
    ends = () if interval is None else (interval.low, interval.high)
    if measured is None or predicted is None:
        return None
    if hasattr(row, "identity"):
        identity = row.identity
    else:  # a collective, which is a case at one size
        identity = {**row.case.identity, "bytes": f"{row.nbytes:,.0f}"}
    # What the point shows where it is pointed at: longer ones would leave the picture.
    name = ", ".join(str(value) for value in identity.values() if value)[:90]
    return Pair(name, _short(measured), _short(predicted), *map(_short, ends))


def _short(value: float) -> float:
    # More digits would lengthen the file, and no point would move.
    return float(f"{value:.5g}")


def main(kinds: list[str]) -> None:
    """Compute the tables of ``kinds``, all if there are none, and write the file whole."""
    import validate.published
    from dpsim.base.terminal import narrate, write_whole

    folder = Path(str(validate.published.__file__)).parent / "data"
    tables = (
        json.loads(KEPT.read_text(encoding="utf-8"))["tables"] if kinds and KEPT.exists() else {}
    )
    for kind in kinds or TABLES:
        tables[kind] = compared(kind, folder / TABLES[kind][0])
        narrate(f"{kind}: {tables[kind]['errors']}")
    # A line for each table in a fixed order: where one is computed anew, one line differs.
    ordered = {kind: tables[kind] for kind in TABLES if kind in tables}
    lines = ",\n".join(
        f" {json.dumps(kind)}: {json.dumps(table, ensure_ascii=False)}"
        for kind, table in ordered.items()
    )
    write_whole(KEPT, f'{{"schema_version": 1, "tables": {{\n{lines}\n}}}}\n')


if __name__ == "__main__":
    main(sys.argv[1:])

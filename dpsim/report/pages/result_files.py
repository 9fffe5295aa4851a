"""What the other commands print with ``--json``, read back: each file is recognised by its keys."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from dpsim.base.errors import DpsimError
from dpsim.base.files import read_text_limited
from dpsim.engine import PARTS
from dpsim.report.figures.style import Answer

Kind = Literal["run", "compare", "scale", "collective", "explain", "sweep"]

_MOST_BYTES = 2**28
_KNOWN = "dpsim run, compare, scale, collective or explain"


@dataclass(frozen=True, slots=True)
class Source:
    """One file or folder of results.

    Where it is from, what printed it, its rows and the name of each; of a run, one row.
    """

    name: str
    kind: Kind
    rows: tuple[Answer, ...]
    labels: tuple[str, ...]


def read_results(path: Path) -> Source:
    """The results in a JSON file.

    Raises DpsimError where it cannot be read, or no command printed it.
    """
    try:
        content = json.loads(read_text_limited(path, _MOST_BYTES))
    except DpsimError:
        raise
    except (ValueError, RecursionError):
        raise DpsimError(f"{path}: must be JSON that {_KNOWN} printed, but is no JSON") from None
    found = _recognised(str(path), content) if isinstance(content, dict) else None
    if found is None:
        raise DpsimError(f"{path}: must be JSON that {_KNOWN} printed, but is not")
    return found


def _recognised(name: str, content: dict[str, Any]) -> Source | None:
    if "knobs" in content and "critical_path" in content:
        return Source(name, "explain", (content,), (str(content["name"]),))
    if "parts_s" in content and "throughput_samples_per_s" in content:
        return Source(name, "run", (content,), (str(content["name"]),))
    rows = content.get("rows")
    return (
        _of_rows(name, rows)
        if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows)
        else None
    )


def _of_rows(name: str, rows: list[Answer]) -> Source | None:
    if "algbw_Bps" in rows[0]:
        return Source(name, "collective", tuple(rows), tuple(str(row["algorithm"]) for row in rows))
    if "variant" in rows[0]:
        return Source(name, "compare", tuple(rows), tuple(_varied(row["variant"]) for row in rows))
    if "nodes" in rows[0] and "parts_s" in rows[0]:
        return Source(name, "scale", tuple(rows), tuple(_scaled(row) for row in rows))
    return None


def _varied(values: Mapping[str, Any]) -> str:
    """``algorithm ring, nodes 4`` for the values of varied fields by path."""
    return ", ".join(f"{key.rsplit('.', 1)[-1]} {value}" for key, value in values.items())


def _scaled(row: Answer) -> str:
    batch = f", batch {row['batch_per_gpu']}" if "batch_per_gpu" in row else ""
    return f"{row['nodes']} nodes{batch}"


def of_sweep(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Source:
    """The rows of a sweep's table as `dpsim.studies.sweep.query` answers them.

    Points that failed are left out.

    Raises DpsimError where none is left.
    """
    listed = [dict(zip(columns, row, strict=True)) for row in rows]
    done = [row for row in listed if row.get("step_time_s") is not None]
    if not done:
        raise DpsimError(f"{name}: must have at least one point that was computed, but has none")
    place = columns.index("workers")
    varied = [column for column in columns[columns.index("seed") + 1 : place] if column]
    answers = [_answer(row) for row in done]
    labels = [
        _varied({column: row[column] for column in varied}) or str(row["name"]) for row in done
    ]
    return Source(name, "sweep", tuple(answers), tuple(labels))


def _answer(row: Answer) -> Answer:
    """A flat row in the shape of ``dpsim run``, as far as it goes."""
    step = {key: row[f"step_time_{key}_s"] for key in ("median", "p95", "low", "high")}
    return {
        "name": row["name"],
        "workers": row["workers"],
        "step_time_s": {"mean": row["step_time_s"], **step},
        "parts_s": {part: row[f"{part}_s"] for part in PARTS},
        "throughput_samples_per_s": row["throughput_samples_per_s"],
        "scaling_efficiency": row["scaling_efficiency"],
        "bytes_sent_per_worker": row["bytes_sent_per_worker"],
        "notes": [row["notes"]] if row["notes"] else [],
        "calibration": row["calibration"],
    }

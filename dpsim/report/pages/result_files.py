"""What the other commands print with ``--json``, read back: each file says its kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ValidationError

from dpsim.base.config import first_problem
from dpsim.base.doubt import CONFIDENCE
from dpsim.base.errors import DpsimError
from dpsim.base.files import read_text_limited
from dpsim.engine import PARTS
from dpsim.report.figures.style import Answer
from dpsim.report.pages.answers import (
    CollectiveAnswer,
    ExplainAnswer,
    RunAnswer,
    ScaleAnswer,
    SweptAnswer,
    VariantAnswer,
)
from dpsim.report.text.tables import cell, headings

Kind = Literal["run", "compare", "scale", "collective", "explain", "sweep"]

_MOST_BYTES = 2**28
_LONGEST = 80  # letters of a place in the file
_OF_TEXT = ("tokens_per_s", "tokens_per_s_per_gpu", "mfu", "hfu", "tflops_per_gpu")
_KNOWN = "dpsim run, compare, scale, collective or explain"


@dataclass(frozen=True, slots=True)
class Source:
    """One file or folder of results: where it is, what printed it, its rows and their names.

    A run has one row.
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
    return results_in(content, str(path))


def results_in(content: object, path: str) -> Source:
    """The results in what a command printed, which is from ``path``. Raises DpsimError."""
    kind = content.get("kind") if isinstance(content, dict) else None
    # Not by membership: the kind may be a list, say, which no mapping can look up.
    known = next((each for each in _FORMS if each == kind), None)
    if known is None or not isinstance(content, dict):
        raise DpsimError(
            f"{path}: must be JSON that {_KNOWN} printed, but its key kind says none of these"
        )
    form = _FORMS[known]
    rows = [content] if form.one_row else content.get("rows")
    if not isinstance(rows, list) or not rows:
        raise DpsimError(f"{path}: must be JSON that {_KNOWN} printed, but has no rows")
    for row in rows:
        _check(path, form.row, row, f"JSON that {_KNOWN} printed")
    return Source(path, known, tuple(rows), tuple(form.label(row) for row in rows))


def _check(path: str, model: type[BaseModel], row: object, wanted: str) -> None:
    """Raise DpsimError where a row is not as ``model`` has it, with the place."""
    try:
        model.model_validate(row)
    except ValidationError as error:
        where, rule, _ = first_problem(error)
        raise DpsimError(
            f"{path}: must be {wanted}, but {(where or 'a row')[:_LONGEST]}: {rule}"
        ) from None


def _named(row: Answer) -> str:
    return str(row["name"])


def _of_algorithm(row: Answer) -> str:
    return str(row["algorithm"])


def _variant(row: Answer) -> str:
    return _varied(row["variant"]) or "as the file is"


def _varied(values: Mapping[str, Any]) -> str:
    """``algorithm ring, nodes 4`` for the values of varied fields by path."""
    named = zip(headings(values), values.items(), strict=True)
    return ", ".join(
        f"{heading.replace('_', ' ')} {cell(value, path)}" for heading, (path, value) in named
    )


def _scaled(row: Answer) -> str:
    batch = f", batch {row['batch_per_gpu']}" if "batch_per_gpu" in row else ""
    several = "" if row["nodes"] == 1 else "s"
    return f"{row['nodes']} node{several}{batch}"


@dataclass(frozen=True, slots=True)
class _Form:
    """What a command prints: what a row must be, and what it is called on the page.

    ``one_row``: it answers one scenario, and is its own only row.
    """

    row: type[BaseModel]
    label: Callable[[Answer], str]
    one_row: bool = False


_FORMS: Mapping[Kind, _Form] = {
    "run": _Form(RunAnswer, _named, one_row=True),
    "explain": _Form(ExplainAnswer, _named, one_row=True),
    "compare": _Form(VariantAnswer, _variant),
    "scale": _Form(ScaleAnswer, _scaled),
    "collective": _Form(CollectiveAnswer, _of_algorithm),
}


def of_sweep(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Source:
    """The rows of a sweep's table as `dpsim.studies.sweep.query` answers them.

    Points that failed are left out.

    Raises DpsimError where none is left, or what is left is not whole.
    """
    listed = [dict(zip(columns, row, strict=True)) for row in rows]
    done = [row for row in listed if row.get("step_time_s") is not None]
    if not done:
        raise DpsimError(f"{name}: must have at least one point that was computed, but has none")
    # What the sweep varies stands between the seed and the answers, of which workers is the first.
    place = columns.index("workers")
    varied = [column for column in columns[columns.index("seed") + 1 : place] if column]
    answers = [_answer(row) for row in done]
    for answer in answers:
        _check(name, SweptAnswer, answer, "what dpsim sweep wrote")
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
        **{key: row.get(key) for key in _OF_TEXT},
        "scaling_efficiency": row["scaling_efficiency"],
        "bytes_sent_per_worker": row["bytes_sent_per_worker"],
        "notes": [row["notes"]] if row["notes"] else [],
        "calibration": row["calibration"],
        "interval_s": _interval(row),
    }


def _interval(row: Answer) -> Answer | None:
    """The model's error of a flat row, which older files lack."""
    low, high = row.get("interval_low_s"), row.get("interval_high_s")
    if low is None or high is None:
        return None
    apart = row.get("extrapolated")
    return {
        "low": low,
        "high": high,
        "confidence": CONFIDENCE,
        "extrapolated": [apart] if apart else [],
    }

"""Read the output of commands with ``--json``; each file states its kind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.base.files import read_text_limited
from dpsim.base.uncertainty import CONFIDENCE
from dpsim.engine import PARTS
from dpsim.report.figures.style import Answer
from dpsim.report.text.tables import cell, headings

_MOST_BYTES = 2**28
_TOKEN_FIGURES = ("tokens_per_s", "tokens_per_s_per_gpu", "mfu", "hfu", "tflops_per_gpu")
_MUST_BE_PRINTED = "must be JSON as a command printed it"
_COMMANDS = "dpsim run, compare, scale, collective or explain"


@dataclass(frozen=True, slots=True)
class Source:
    """A file or folder of results: its name, the command, its rows and their labels.

    A run has one row.
    """

    name: str
    kind: str
    rows: tuple[Answer, ...]
    labels: tuple[str, ...]


def read_results(path: Path) -> Source:
    """Read the results in a JSON file, or in a sweep's folder.

    Raises DpsimError if they cannot be read, or are not a command's output.
    """
    if not path.is_dir():
        return results_in(read_json(path), str(path))
    from dpsim.studies.sweep import query

    answered = query(path)
    return of_sweep(str(path), answered.columns, answered.rows)


def read_json(path: Path) -> object:
    """Return the content of a JSON file. Raises DpsimError if it is none, or too large."""
    text = read_text_limited(path, _MOST_BYTES)
    try:
        return json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise DpsimError(f"{path}: must be JSON that a command printed, but is not JSON") from None


def _no_number(name: str) -> None:
    """Refuse NaN and infinity, which Python reads although JSON has neither."""
    raise ValueError(name)


@contextmanager
def as_printed(name: str) -> Iterator[None]:
    """Raise DpsimError with one line if results from ``name`` cannot be shown.

    Commands print complete results: only an edited or truncated file gets here.
    """
    try:
        yield
    except DpsimError:  # is a ValueError
        raise
    except KeyError as error:
        raise DpsimError(f"{name}: {_MUST_BE_PRINTED}, but lacks {error}") from error
    except (ArithmeticError, AttributeError, IndexError, TypeError, ValueError) as error:
        # Keep only the first line; plotly explains a wrong value in many.
        reason = str(error).strip().partition("\n")[0]
        raise DpsimError(
            f"{name}: {_MUST_BE_PRINTED}, but has a value that cannot be shown: {reason}"
        ) from error


def results_in(content: object, path: str) -> Source:
    """Return the results in a command's output from ``path``. Raises DpsimError."""
    kind = content.get("kind") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(kind, str) or kind not in _LABELS:
        raise DpsimError(
            f"{path}: must be JSON that {_COMMANDS} printed, but its key kind names none of these"
        )
    # Output without rows is for one scenario, and is itself the only row.
    rows = content.get("rows", [content])
    if not isinstance(rows, list) or not rows:
        raise DpsimError(f"{path}: must be JSON that {_COMMANDS} printed, but has no rows")
    with as_printed(path):
        return Source(path, kind, tuple(rows), tuple(map(_LABELS[kind], rows)))


def _variant_label(values: Mapping[str, Any]) -> str:
    """Return ``algorithm ring, nodes 4`` for the values of varied fields by path."""
    named = zip(headings(values), values.items(), strict=True)
    return ", ".join(
        f"{heading.replace('_', ' ')} {cell(value, path)}" for heading, (path, value) in named
    )


def _scale_label(row: Answer) -> str:
    batch = f", batch {row['batch_per_gpu']}" if "batch_per_gpu" in row else ""
    several = "" if row["nodes"] == 1 else "s"
    return f"{row['nodes']} node{several}{batch}"


# By command, the label of a row of its output.
_LABELS: Mapping[str, Callable[[Answer], str]] = {
    "run": lambda row: str(row["name"]),
    "explain": lambda row: str(row["name"]),
    "compare": lambda row: _variant_label(row["variant"]) or "as the file is",
    "scale": _scale_label,
    "collective": lambda row: str(row["algorithm"]),
}


def of_sweep(name: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Source:
    """Return the rows of a sweep's table, given as `dpsim.studies.sweep.query` returns them.

    Points that failed are left out. Raises DpsimError if none is left.
    """
    listed = [dict(zip(columns, row, strict=True)) for row in rows]
    done = [row for row in listed if row.get("step_time_s") is not None]
    if not done:
        raise DpsimError(f"{name}: must have at least one point that was computed, but has none")
    # The varied columns are between the seed and the results, of which workers is the first.
    end = columns.index("workers")
    varied = [column for column in columns[columns.index("seed") + 1 : end] if column]
    answers = [_answer(row) for row in done]
    labels = [_variant_label({key: row[key] for key in varied}) or str(row["name"]) for row in done]
    return Source(name, "sweep", tuple(answers), tuple(labels))


def _answer(row: Answer) -> Answer:
    """Return a flat row in the form of ``dpsim run``, as far as possible."""
    step = {key: row[f"step_time_{key}_s"] for key in ("median", "p95", "low", "high")}
    return {
        "name": row["name"],
        "workers": row["workers"],
        "step_time_s": {"mean": row["step_time_s"], **step},
        "parts_s": {part: row[f"{part}_s"] for part in PARTS},
        "throughput_samples_per_s": row["throughput_samples_per_s"],
        **{key: row.get(key) for key in _TOKEN_FIGURES},
        "scaling_efficiency": row["scaling_efficiency"],
        "bytes_sent_per_worker": row["bytes_sent_per_worker"],
        "notes": [row["notes"]] if row["notes"] else [],
        "calibration": row["calibration"],
        "interval_s": _interval(row),
    }


def _interval(row: Answer) -> Answer | None:
    """Return the interval of a flat row by the models' errors, which older files lack."""
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

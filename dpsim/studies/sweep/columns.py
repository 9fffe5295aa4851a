"""The columns of a sweep's results, and the names of the varied fields."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from dpsim.engine import PARTS, Result

Cell: TypeAlias = str | int | float | bool | None

OF_A_POINT = ("point", "file", "name", "seed")  # before the varied fields; point counts from 0
ERROR = "error"
BETWEEN_SENTENCES = "; "  # separates entries in columns that hold several
# Columns with the same names in parts of a result.
_UTILISATION = ("tokens_per_s", "tokens_per_s_per_gpu", "mfu", "hfu", "tflops_per_gpu")
_SPREAD = ("median", "p95", "low", "high")
_TOTAL = ("time_s", "gpu_hours", "price", "energy_kwh")


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its name, its type, and a function from a result to its value, which may be None.

    The columns are described in docs/json.md.
    """

    name: str
    type: type
    of: Callable[[Result], Cell]


def _column(name: str, kind: type, path: str = "") -> Column:
    """Return a column that reads a result's attribute at ``path``, by default of its own name."""
    return Column(name, kind, lambda result: _at(result, (path or name).split(".")))


def _at(value: Any, path: list[str]) -> Any:
    """Return the value at a path of attributes and keys below ``value``; None if a part is None."""
    for part in path:
        if value is not None:
            value = value[part] if isinstance(value, dict) else getattr(value, part)
    return value


def _per_million(result: Result) -> float:
    return 1e6 / result.throughput_samples_per_s


def _kwh_per_million(result: Result) -> float | None:
    return None if result.energy is None else result.energy.per_sample_J / 3.6


def _extrapolated(result: Result) -> str:
    extrapolated = () if result.interval is None else result.interval.extrapolated
    return BETWEEN_SENTENCES.join(extrapolated)


def _calibration(result: Result) -> str:
    calibration = result.calibration
    return calibration if isinstance(calibration, str) else json.dumps(calibration, sort_keys=True)


COLUMNS = (
    _column("workers", int),
    _column("step_time_s", float, "step_time_s.mean"),
    *(_column(f"step_time_{what}_s", float, f"step_time_s.{what}") for what in _SPREAD),
    _column("interval_low_s", float, "interval.low"),
    _column("interval_high_s", float, "interval.high"),
    Column("extrapolated", str, _extrapolated),
    # All parts, so that all sweeps have the same columns.
    *(_column(f"{part}_s", float, f"parts_s.{part}") for part in PARTS),
    _column("overlapped_comm_s", float),
    _column("throughput_samples_per_s", float),
    *(_column(name, float, f"utilisation.{name}") for name in _UTILISATION),
    _column("scaling_efficiency", float),
    _column("bytes_sent_per_worker", int, "traffic.sent_by_busiest"),
    _column("bytes_sent_total", int, "traffic.sent_in_total"),
    _column("bytes_per_sample", float),
    Column("algorithms", str, lambda result: ",".join(result.traffic.algorithms)),
    Column("libraries", str, lambda result: ",".join(each.library for each in result.libraries)),
    _column("busiest_link", str, "traffic.busiest_link"),
    _column("busiest_link_utilisation", float, "traffic.busiest_link_utilisation"),
    _column("clock_gap_mean", float, "staleness.clock_gap.mean"),
    _column("clock_gap_max", int, "staleness.clock_gap.max"),
    _column("versions_mean", float, "staleness.versions.mean"),
    _column("versions_max", int, "staleness.versions.max"),
    _column("dropped", float, "staleness.dropped"),
    _column("startup_s", float, "one_time.startup_s"),
    _column("memory_bytes", float, "memory.held.total"),
    _column("memory_fits", bool, "memory.fits"),
    _column("input_bound", bool),
    _column("goodput", float, "goodput.useful"),
    Column("seconds_per_million_samples", float, _per_million),
    _column("price_per_million_samples", float),
    Column("kwh_per_million_samples", float, _kwh_per_million),
    _column("currency", str, "spending.currency"),
    *(_column(f"total_{what}", float, f"total.{what}") for what in _TOTAL),
    Column("calibration", str, _calibration),
    Column("notes", str, lambda result: "; ".join(result.notes)),
)


def row(result: Result) -> dict[str, Cell]:
    """Return a result as one flat row."""
    return {column.name: column.of(result) for column in COLUMNS}


def varied_names(paths: Iterable[str]) -> dict[str, str]:
    """Return the column of each varied field by its path.

    The column is named by the path's last word, or by the whole path if that name is taken. Varied
    names and seeds have columns anyway.
    """
    chosen = [path for path in paths if path not in ("name", "run.seed")]
    counts = Counter(map(_last_word, chosen))
    taken = {*OF_A_POINT, *(column.name for column in COLUMNS), ERROR}
    return {
        path: path if counts[word] > 1 or word in taken else word
        for path in chosen
        for word in [_last_word(path)]
    }


def _last_word(path: str) -> str:
    """Return the last word of a path in lower case, because SQL is case-insensitive."""
    return re.sub(r"(\[\d+\]|\.\d+)+$", "", path).rpartition(".")[2].lower()

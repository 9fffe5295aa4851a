"""Parse step times in the logs of training programs, by the lines that each tool prints.

Megatron-LM prints ``elapsed time per iteration``; torchtitan and DeepSpeed stamp a line with a step
number; Composer's SpeedMonitor prints ``throughput/batches_per_sec``; Lightning, accelerate's
examples and the Trainer of transformers show tqdm's progress bar. Each gives the mean of some
consecutive steps. Readings that contain one of the first ten steps are dropped as warm-up.

A CSV file is a table of Lightning's CSVLogger, with the columns of its ThroughputMonitor, or has
the time of every step; then no warm-up is dropped.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from dpsim.base.files import csv_rows
from dpsim.disturbance import StepLog, steps_in
from dpsim.imports.reading import ImportFileError, read_input, text_lines

WARM_UP = 10  # steps
_FEWEST_STEPS = 10  # the fewest steps to read after warm-up
_LEAST_RATE = 0.01  # batches/s: Composer prints four decimals
_WINDOW_S = 20  # seconds of a progress bar, which shows whole seconds

_MOST_BYTES = 256 * 2**20  # of a table
_LONGEST_LINE = 1000  # characters of a line: longer ones contain no step times

_STAMP = r"(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,]\d{3})"
_NUMBER = r"(\d+(?:\.\d+)?)"
_MEGATRON = re.compile(rf"iteration +(\d+)/ *\d+ \|.*elapsed time per iteration \(ms\): {_NUMBER}")
_TORCHTITAN = re.compile(rf"{_STAMP} - \S+ - INFO - step: +(\d+) .*\btps: ")
_DEEPSPEED = re.compile(rf"\[{_STAMP}\] .*\[Rank 0\] step=(\d+), skipped=", re.IGNORECASE)
_COMPOSER = re.compile(rf"Train (time/batch|throughput/batches_per_sec): {_NUMBER}")
# tqdm's bar, which is redrawn many times: Epoch 0:  50%|###  | 50/100 [00:10<00:10, 5.00it/s]
_BAR = re.compile(
    r"([^|%]*?):? {0,3}\d{1,3}%\|[^|]*\| {0,9}(\d{1,12})/(\d{1,12}) \[((?:\d+:)?\d+:\d\d)<"
)
# Lightning's ThroughputMonitor: seconds of training so far, without validation.
_STEP, _ELAPSED = "step", "train/time"
_METRICS = "metrics.csv"  # of CSVLogger, in lightning_logs/version_N

_TRAINS = re.compile(r"(\[rank\d+\]:|\d+: )? *((epoch|step|train)\b.*|steps|training.*)?", re.I)


class _Reading(NamedTuple):
    """The mean seconds of the steps after ``begin`` up to ``end``."""

    begin: int
    end: int
    seconds: float


def read_step_log(path: Path) -> StepLog:
    """Read the step times in the log at ``path``, or in a folder of Lightning's CSVLogger.

    Raises DpsimError for none or too few.
    """
    path = path / _METRICS if path.is_dir() else path
    try:
        if path.suffix == ".csv":
            return _read_table(path)
        lines = text_lines(read_input(path))
        return _read([line for line in lines if len(line) <= _LONGEST_LINE])
    except ImportFileError as error:
        raise error.of(path) from None


def _read(lines: Sequence[str]) -> StepLog:
    for tool, read in _TOOLS.items():
        readings = list(read(lines))
        if readings:
            return _after_warm_up(tool, readings)
    return _read_progress_bars(lines)


def _after_warm_up(tool: str, readings: Sequence[_Reading]) -> StepLog:
    warm = readings[0].begin + WARM_UP if readings else WARM_UP
    kept = [each for each in readings if each.begin >= warm]
    steps = sum(each.end - each.begin for each in kept)
    if steps < _FEWEST_STEPS:
        raise ImportFileError(
            f"must have at least {_FEWEST_STEPS} steps of {tool} after the first {WARM_UP}, but "
            f"has {steps}"
        )
    seconds = tuple(each.seconds for each in kept)
    if not all(0 < each < math.inf for each in seconds):
        raise ImportFileError(f"steps of {tool} must take longer than 0 s, but one does not")
    return StepLog(tool, seconds, single=all(each.end - each.begin == 1 for each in kept))


def _read_table(path: Path) -> StepLog:
    """Read the ``metrics.csv`` of Lightning's CSVLogger, or the steps of a table."""
    names, rows = csv_rows(path, _MOST_BYTES)
    if path.name != _METRICS and _ELAPSED not in names:
        job = steps_in(path, names, rows)
        seconds = tuple(job.times.max(axis=1).tolist())
        return StepLog("a table", seconds, single=True, by_rank=job if len(job.ranks) > 1 else None)
    missing = [name for name in (_STEP, _ELAPSED) if name not in names]
    if missing:
        raise ImportFileError(
            f"must have the column {missing[0]!r}, which Lightning's callback ThroughputMonitor "
            "logs, but has none of that name"
        )
    at: list[tuple[int, float]] = []
    for line, row in enumerate(rows, 2):
        if row[_ELAPSED]:
            try:
                # Steps are numbered from 0.
                at.append((int(row[_STEP]) + 1, float(row[_ELAPSED])))
            except ValueError:
                raise ImportFileError(
                    f"{_STEP} and {_ELAPSED} must be numbers, but got {row[_STEP]!r:.40} and "
                    f"{row[_ELAPSED]!r:.40}",
                    line,
                ) from None
    return _after_warm_up("Lightning", list(_between(at)))


def _megatron(lines: Sequence[str]) -> Iterator[_Reading]:
    found = [(int(m[1]), float(m[2]) * 1e-3) for m in map(_MEGATRON.search, lines) if m]
    numbers = [number for number, _ in found]
    for begin, (end, seconds) in zip(_begins(numbers), found, strict=True):
        yield _Reading(begin, end, seconds)


def _read_stamps(pattern: re.Pattern[str], lines: Sequence[str]) -> Iterator[_Reading]:
    """Yield readings between lines with a time and a step; other ranks repeat the step."""
    at: dict[int, float] = {}
    start: datetime | None = None
    for match in filter(None, map(pattern.search, lines)):
        now = _time(match[1])
        start = start or now
        at.setdefault(int(match[2]), (now - start).total_seconds())
    return _between([*at.items()])


def _between(at: Sequence[tuple[int, float]]) -> Iterator[_Reading]:
    """Yield readings between steps and the times (s) at which they ended."""
    numbers = [number for number, _ in at]
    begins = _begins(numbers)
    if at:
        # The start of the steps before the first line is unknown, so they count as warm-up.
        yield _Reading(begins[0], numbers[0], 1.0)
    for (begin, start), (end, stop) in pairwise(at):
        yield _Reading(begin, end, (stop - start) / (end - begin))


def _time(stamp: str) -> datetime:
    try:
        return datetime.fromisoformat(stamp.replace(",", "."))
    except ValueError:
        raise ImportFileError(f"time stamps must be dates, but got {stamp!r}") from None


def _begins(numbers: Sequence[int]) -> list[int]:
    """Return the step after which each reading begins; the first spans as many as the second."""
    for before, after in pairwise(numbers):
        if after <= before:
            raise ImportFileError(
                f"must be the log of one run, but step {after:,} comes after step {before:,}"
            )
    if not numbers:
        return []
    stride = numbers[1] - numbers[0] if len(numbers) > 1 else numbers[0]
    return [max(numbers[0] - stride, 0), *numbers[:-1]]


def _composer(lines: Sequence[str]) -> Iterator[_Reading]:
    """Yield moving averages, over at most as many batches as preceded the first of them."""
    batch = 0
    numbers: list[int] = []
    for match in filter(None, map(_COMPOSER.search, lines)):
        if match[1] == "time/batch":
            batch = int(float(match[2])) + 1
            continue
        if numbers[-1:] == [batch]:
            continue
        rate = float(match[2])
        if rate < _LEAST_RATE:
            raise ImportFileError(
                f"throughput/batches_per_sec must be at least {_LEAST_RATE}, but got {match[2]}, "
                "too few digits for a step"
            )
        numbers.append(batch)
        _begins(numbers[-2:])
        yield _Reading(batch - numbers[0], batch, 1 / rate)


def _read_progress_bars(lines: Sequence[str]) -> StepLog:
    """Read the training's progress bar, by windows of 20 s, since it shows whole seconds."""
    seconds: list[float] = []
    points: list[tuple[int, int]] = []
    totals: set[int] = set()
    for match in filter(None, map(_BAR.match, lines)):
        if not _TRAINS.fullmatch(match[1].strip()):
            continue
        done, elapsed = int(match[2]), _elapsed_s(match[4])
        totals.add(int(match[3]))
        if points and done < points[-1][0]:
            seconds += _windows(points)
            points = []
        points.append((done, elapsed))
    if len(totals) > 1:
        raise ImportFileError(
            "must show the progress bar of training alone, but has bars of "
            f"{', '.join(f'{total:,}' for total in sorted(totals))} steps"
        )
    seconds += _windows(points)
    if not totals:
        raise ImportFileError(
            f"must have lines with step times of {', '.join(_TOOLS)}, or a progress bar of tqdm "
            "(Lightning, accelerate), but has none"
        )
    if not seconds:
        raise ImportFileError(
            f"must show a progress bar for at least {_WINDOW_S} s after the first {WARM_UP} steps, "
            "since it shows whole seconds"
        )
    return StepLog("a progress bar", tuple(seconds), single=False, counts_passes=True)


def _windows(points: Sequence[tuple[int, int]]) -> Iterator[float]:
    warm = [point for point in points if point[0] >= points[0][0] + WARM_UP]
    if not warm:
        return
    begin, start = warm[0]
    for done, elapsed in warm:
        if elapsed - start >= _WINDOW_S and done > begin:
            yield (elapsed - start) / (done - begin)
            begin, start = done, elapsed


def _elapsed_s(text: str) -> int:
    seconds = 0
    for part in text.split(":"):
        seconds = 60 * seconds + int(part)
    return seconds


_TOOLS: dict[str, Callable[[Sequence[str]], Iterator[_Reading]]] = {
    "Megatron-LM": _megatron,
    "torchtitan": partial(_read_stamps, _TORCHTITAN),
    "DeepSpeed": partial(_read_stamps, _DEEPSPEED),
    "Composer": _composer,
}

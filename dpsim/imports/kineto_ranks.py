"""Read a folder of PyTorch traces, one per rank: slow ranks, and the spread of steps.

Clocks are not compared across ranks. A rank's own work in a step is the time in which its GPU
computes: the union of all kernels except collectives. A collective's kernel runs from the arrival
of its own rank until all are done, so that the last rank to arrive has the shortest one: the other
ranks' time beyond it is waiting.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.base.files import shown_path
from dpsim.disturbance import STEPS_TO_FIT, StepLog, TimedJob, fit_jitter
from dpsim.imports.kineto_events import read_trace
from dpsim.imports.kineto_steps import Call, StepMarks, StepTimes, step_times
from dpsim.imports.reading import files_in

_RANK = re.compile(r"rank[-_]?(\d{1,7})(?!\d)", re.IGNORECASE)
# HOST_PID.TIME.pt.trace.json, the file names of tensorboard_trace_handler.
_HANDLER = re.compile(r"(.+)_\d+\.\d+\.pt\.trace\.json(\.gz)?")


@dataclass(frozen=True, slots=True)
class RankSkew:
    """The medians of one rank over its steps, in seconds.

    ``slowdown`` is its compute time over the median rank's, ``spread`` the coefficient of variation
    of its compute time over steps, ``last`` the share of its collectives at which it arrived last
    (None if no other rank took part).
    """

    rank: int
    host: str
    file: str
    step_s: float
    compute_s: float
    slowdown: float
    spread: float
    collectives_s: float
    wait_s: float
    idle_s: float
    last: float | None


@dataclass(frozen=True, slots=True)
class StepSkew:
    """The compute seconds of a step's fastest, median and slowest rank, and the slowest rank."""

    step: int
    fastest_s: float
    median_s: float
    slowest_s: float
    slowest_rank: int

    @property
    def skew_s(self) -> float:
        """The difference of the slowest and the fastest rank's computing."""
        return self.slowest_s - self.fastest_s


@dataclass(frozen=True, slots=True)
class RankTraces:
    """The contents of a folder of traces.

    ``compute`` and ``exposed`` (communication without concurrent computing) are in seconds, of the
    shape (steps, ranks). ``periods`` are the median rank's seconds from a step's first kernel to
    the next step's. ``has_gpu`` and ``has_marks``: every trace has kernels, and marks of steps.
    """

    ranks: tuple[RankSkew, ...]
    steps: tuple[StepSkew, ...]
    compute: FloatArray
    exposed: FloatArray
    periods: tuple[float, ...]
    nodes: tuple[int, ...]
    notes: tuple[str, ...]
    has_gpu: bool
    has_marks: bool

    @property
    def typical_rank(self) -> RankSkew:
        """The rank with the median compute time."""
        by_time = sorted(self.ranks, key=lambda one: (one.compute_s, one.rank))
        return by_time[(len(by_time) - 1) // 2]

    @property
    def skew_s(self) -> dict[str, float]:
        """The seconds from a step's fastest to its slowest rank: median and maximum over steps."""
        skews = [step.skew_s for step in self.steps]
        return {"median": float(np.median(skews)), "max": max(skews)}

    @property
    def median_step_s(self) -> float:
        """The median over steps of the median rank's computing."""
        return float(np.median([step.median_s for step in self.steps]))


@dataclass(frozen=True, slots=True)
class _Rank:
    rank: int | None
    host: str
    path: Path
    steps: dict[int, StepTimes]
    has_gpu: bool
    has_marks: bool


def read_ranks(
    folder: Path,
    *,
    gpus_per_node: int | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> RankTraces:
    """Read the traces in ``folder``, one per rank, gzipped or not; or a single one.

    ``progress`` gets the number of files read. Nodes are determined by host, if files are named by
    tensorboard_trace_handler, or are ``gpus_per_node`` ranks each. Raises DpsimError, beginning
    with the file, if they are not of one run.
    """
    read = []
    for done, path in enumerate(trace_files(folder), 1):
        read.append(_rank(path))
        progress(done)
    ranks = _order_ranks(read)
    common = sorted(set.intersection(*(set(one.steps) for one in ranks.values())))
    if not common:
        raise DpsimError(f"{shown_path(folder)}: traces must have a step in common, but have none")
    # Steps that some rank did not record would compare unlike work: only common ones count.
    compute, exposed, begins = (
        np.array([[getattr(one.steps[step], name) for one in ranks.values()] for step in common])
        for name in ("compute_s", "exposed_s", "begin")
    )
    follows = np.diff(common) == 1
    periods = np.median(np.diff(begins, axis=0)[follows], axis=1)
    waits, last = _waits(list(ranks.values()), common)
    return RankTraces(
        tuple(_rank_skew(ranks, common, compute, waits, last)),
        tuple(_step_skew(list(ranks), common, compute)),
        compute,
        exposed,
        tuple(periods.tolist()),
        tuple(_nodes(ranks, gpus_per_node)),
        tuple(_notes(ranks, common, gpus_per_node)),
        all(one.has_gpu for one in ranks.values()),
        all(one.has_marks for one in ranks.values()),
    )


def trace_files(folder: Path) -> list[Path]:
    """Return the traces in a folder by name, or the single one. Raises DpsimError for none."""
    return files_in(folder, (".json", ".json.gz")) if folder.is_dir() else [folder]


def _rank(path: Path) -> _Rank:
    trace = read_trace(path)
    named = _RANK.search(path.name)
    host = _HANDLER.fullmatch(path.name)
    # The trace's own rank has precedence over its file name, which may have been changed.
    rank = int(named[1]) if trace.rank is None and named else trace.rank
    steps = step_times(trace, path)
    has_marks = bool(StepMarks(trace).marks)
    return _Rank(rank, host[1] if host else "", path, steps, bool(trace.kernels), has_marks)


def _order_ranks(read: Sequence[_Rank]) -> dict[int, _Rank]:
    """Return the ranks in order: by traces or file names, otherwise in the order of names."""
    if not any(one.rank is not None for one in read):
        return dict(enumerate(read))
    ordered: dict[int, _Rank] = {}
    for one in read:
        if one.rank is None:
            raise DpsimError(
                f"{shown_path(one.path)}: must say its rank (distributedInfo, or rank3 in the "
                "file's name) as other traces do"
            )
        if one.rank in ordered:
            other = shown_path(ordered[one.rank].path)
            raise DpsimError(
                f"{shown_path(one.path)}: must be of a rank of its own, but {other} is of rank "
                f"{one.rank} as well"
            )
        ordered[one.rank] = one
    return dict(sorted(ordered.items()))


def _waits(ranks: Sequence[_Rank], common: Sequence[int]) -> tuple[FloatArray, list[float | None]]:
    """Return seconds waited in collectives (steps, ranks), and each rank's share of being last."""
    waits = np.zeros((len(common), len(ranks)))
    met, last = np.zeros(len(ranks)), np.zeros(len(ranks))
    for row, step in enumerate(common):
        waited: dict[Call, list[tuple[float, int]]] = defaultdict(list)
        for column, one in enumerate(ranks):
            for call, seconds in one.steps[step].calls.items():
                waited[call].append((seconds, column))
        for taken in waited.values():
            if len(taken) < 2:
                continue
            # All ranks end a collective at once, so the rank with the shortest time came last, and
            # the clocks of different hosts need not agree.
            shortest = min(seconds for seconds, _ in taken)
            latest = [column for seconds, column in taken if seconds == shortest]
            # Ranks that arrived together share it, so that the shares of a collective add up to
            # one.
            last[latest] += 1 / len(latest)
            for seconds, column in taken:
                waits[row, column] += seconds - shortest
                met[column] += 1
    return waits, [float(a / b) if b else None for a, b in zip(last, met, strict=True)]


def _rank_skew(
    ranks: dict[int, _Rank],
    common: Sequence[int],
    compute: FloatArray,
    waits: FloatArray,
    last: Sequence[float | None],
) -> Iterable[RankSkew]:
    medians = np.median(compute, axis=0)
    for column, (rank, one) in enumerate(ranks.items()):
        steps = [one.steps[step] for step in common]
        times = compute[:, column]
        yield RankSkew(
            rank=rank,
            host=one.host,
            file=one.path.name,
            step_s=float(np.median([step.step_s for step in steps])),
            compute_s=float(medians[column]),
            slowdown=float(medians[column] / np.median(medians)),
            spread=float(times.std(ddof=1) / times.mean()) if len(times) > 1 else 0.0,
            collectives_s=float(np.median([sum(step.calls.values()) for step in steps])),
            wait_s=float(np.median(waits[:, column])),
            idle_s=float(np.median([step.idle_s for step in steps])),
            last=last[column],
        )


def _step_skew(
    ranks: Sequence[int], common: Sequence[int], compute: FloatArray
) -> Iterable[StepSkew]:
    for step, times in zip(common, compute, strict=True):
        fastest, median, slowest = np.quantile(times, [0, 0.5, 1]).tolist()
        yield StepSkew(step, fastest, median, slowest, ranks[int(times.argmax())])


def _nodes(ranks: dict[int, _Rank], gpus_per_node: int | None) -> list[int]:
    """Return the node of each rank; all on one if nothing distinguishes them."""
    if gpus_per_node is not None:
        return [rank // gpus_per_node for rank in ranks]
    hosts = list(dict.fromkeys(one.host for one in ranks.values()))
    return [hosts.index(one.host) for one in ranks.values()]


def _notes(
    ranks: dict[int, _Rank], common: Sequence[int], gpus_per_node: int | None
) -> Iterable[str]:
    if not all(one.has_gpu for one in ranks.values()):
        yield "assumed: no GPU in some traces: their times are those of operators on the CPU"
    missing = max(ranks) + 1 - len(ranks)
    if missing:
        yield f"ignored: {missing} ranks below {max(ranks)} have no trace: they count neither way"
    most = max(len(one.steps) for one in ranks.values())
    if most > len(common):
        yield f"ignored: {most - len(common)} steps that not every rank has"
    if gpus_per_node is None and not all(one.host for one in ranks.values()):
        yield (
            "assumed: files do not name their hosts, so all ranks count as one node's: "
            "--gpus-per-node says otherwise"
        )


def disturbance_of(traces: RankTraces) -> dict[str, Any]:
    """Return the ``disturbance`` block of a scenario: jitter, and permanently slow ranks.

    From 20 steps on the jitter is fitted, with parts of the job, of nodes and of workers; with
    fewer it is a histogram. A single step shows slow ranks, but no jitter.
    """
    # The fit counts columns, and some ranks may have no trace.
    numbers = [each.rank for each in traces.ranks]
    block = fit_jitter(traces.compute, traces.nodes).block(numbers)
    if len(traces.steps) >= STEPS_TO_FIT:
        return block
    table = histogram_of(traces)
    jitter = {"jitter": {"kind": "histogram", "table": table}} if table is not None else {}
    slow = {"slow": block["slow"]} if "slow" in block else {}
    return {**jitter, **slow}


def histogram_of(traces: RankTraces) -> dict[str, list[float]] | None:
    """Return the factors of all ranks' compute times with their counts; None for a single step."""
    steps = len(traces.steps)
    if steps < 2:
        return None
    logs = np.log(traces.compute / traces.compute.mean(axis=0))
    # Around the mean of the same n steps the variance is (n - 1) / n of that around the true mean.
    factors = np.exp(logs * np.sqrt(steps / (steps - 1)))
    counts = Counter(round(float(factor), 4) for factor in factors.ravel())
    found = sorted((value, count) for value, count in counts.items() if value > 0)
    return {
        "values": [value for value, _ in found],
        "weights": [float(count) for _, count in found],
    }


def read_traced_steps(path: Path, gpus_per_node: int | None = None) -> StepLog:
    """Read the steps of a trace, or of a folder with a trace of each rank.

    A step lasts from its first kernel to the next step's, since the host may run ahead of the GPU;
    a single step lasts as long as the profiler's mark. ``exposed`` is the median over steps of the
    rank that communicates least: the collectives of the others include waiting for slower ranks.
    It is None without kernels of collectives. Raises DpsimError for traces without kernels or marks
    of steps.
    """
    traces = read_ranks(path, gpus_per_node=gpus_per_node)
    if not traces.has_gpu:
        raise DpsimError(
            f"{shown_path(path)}: must have kernels of a GPU (ProfilerActivity.CUDA), but has none"
        )
    if not traces.has_marks:
        raise DpsimError(
            f"{shown_path(path)}: must have marks of steps, but has none: give PyTorch's profiler "
            "a schedule and call step()"
        )
    exposed = float(np.median(traces.exposed.min(axis=1)))
    busy = float((traces.compute + traces.exposed).max())
    seconds = traces.periods or (max(traces.typical_rank.step_s, busy),)
    if min(seconds) <= 0:
        raise DpsimError(
            f"{shown_path(path)}: steps must begin one after the other, but one begins "
            f"{-min(seconds):.3g} s before the one that it follows"
        )
    has_calls = any(each.collectives_s for each in traces.ranks)
    numbers = [each.rank for each in traces.ranks]
    return StepLog(
        "PyTorch's profiler",
        seconds,
        single=True,
        exposed=exposed if has_calls else None,
        by_rank=TimedJob(traces.compute, numbers, list(traces.nodes))
        if len(numbers) > 1 and len(traces.compute) >= STEPS_TO_FIT
        else None,
    )

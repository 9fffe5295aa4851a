"""From what workers noted to the arrays that the simulator gives.

Seconds by part, and staleness, with the same meaning.

Rows are by worker, then by step; only steps that every worker has ended count. Stamps are of one
clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.engine import Job, Steps, clock_gaps

Rows = Sequence[Mapping[str, Any]]


def account(
    job: Job, rows: Sequence[Rows], carried: Sequence[Rows], steps: int, start: float
) -> Steps:
    """What ``job``'s workers did in up to ``steps`` steps from ``start`` on.

    Rows of each, and messages that each carried.
    """
    whole = min(steps, *(len(own) for own in rows))
    kept = [own[:whole] for own in rows]
    records = Steps.empty(whole, len(rows))
    if not whole:
        return records
    ends = np.vstack([np.full(len(rows), start), _column(kept, "end")])
    records.encode[:], records.input[:] = _column(kept, "encode"), _column(kept, "input")
    if job.acts_alone:
        _alone(records, kept, rows)
    else:
        _together(records, kept, carried, job)
    lasting = np.diff(ends, axis=0)
    waited = records.exposed_comm + records.straggler_wait
    records.compute[:] = lasting - records.encode - records.input - waited
    return records


def _together(records: Steps, rows: Sequence[Rows], carried: Sequence[Rows], job: Job) -> None:
    """As `dpsim.engine.together` divides waits.

    Until the last worker that is waited for has come to one, it is its fault.
    """
    whole, gate = len(rows[0]), job.gate()
    for step in range(whole):
        waits = np.array([own[step]["waits"] for own in rows]).reshape(len(rows), -1, 2)
        for began, ended in waits.transpose(1, 2, 0):
            last = gate.enough_at(began)
            for_others = np.minimum(np.maximum(last - began, 0.0), ended - began)
            records.straggler_wait[step] += for_others
            records.exposed_comm[step] += ended - began - for_others
    busy, rounds = _network(carried, whole)
    records.overlapped_comm[:] = np.maximum(busy[:, None] - records.exposed_comm, 0.0)
    starts, done = _column(rows, "begin"), _column(rows, "done")
    records.clock_gap[:] = clock_gaps(starts, done)
    if job.one_version and rounds:
        records.versions[:] = gate.versions_behind(starts, done, rounds)


def _network(carried: Sequence[Rows], steps: int) -> tuple[FloatArray, list[tuple[float, float]]]:
    """Seconds for which each step's collectives kept the network busy; and when its last one began,
    and ended for all.
    """
    busy, last = np.zeros(steps), dict[int, tuple[float, float]]()
    for same in zip(*carried, strict=False):
        stamps = np.array([row["stamps"] for row in same])  # workers, stages, begin and end
        begins, ends = stamps[:, :, 0].max(axis=0), stamps[:, :, 1].max(axis=0)
        if same[0]["step"] < steps:
            busy[same[0]["step"]] += float((ends - begins).sum())
            last[same[0]["step"]] = float(begins[-1]), float(ends[-1])
    return busy, [last[step] for step in sorted(last)]


def _alone(records: Steps, rows: Sequence[Rows], everything: Sequence[Rows]) -> None:
    """Workers have divided their waits themselves; clocks are compared over all that they did, also
    after their steps.
    """
    records.exposed_comm[:], records.straggler_wait[:] = (
        _column(rows, "exposed_comm"),
        _column(rows, "straggler_wait"),
    )
    records.overlapped_comm[:] = np.maximum(_column(rows, "busy") - records.exposed_comm, 0.0)
    records.versions[:] = _column(rows, "versions").astype(np.int64)
    records.clock_gap[:] = _clock_gaps(
        _column(rows, "begin"), [[row["passed"] for row in own] for own in everything]
    )


def _clock_gaps(begins: FloatArray, passed: Sequence[Sequence[float]]) -> IntArray:
    """Iterations that each worker is ahead of the slowest as it begins one, from when each worker's
    clock ticked.
    """
    clocks = np.stack([np.searchsorted(own, begins, side="right") for own in passed])
    return np.asarray(np.arange(len(begins))[:, None] - clocks.min(axis=0))


def _column(rows: Sequence[Rows], name: str) -> FloatArray:
    """One value of every row, (steps, workers)."""
    return np.array([[row[name] for row in own] for own in rows], dtype=float).T


def collective_seconds(carried: Sequence[Rows], first: int, last: int) -> dict[str, float]:
    """Mean seconds from a worker's begin to its end of each message in steps ``first .. last - 1``,
    by the message's name.
    """
    taken: dict[str, list[float]] = {}
    for row in (row for own in carried for row in own if first <= row["step"] < last):
        taken.setdefault(row["message"], []).append(row["stamps"][-1][1] - row["stamps"][0][0])
    return {name: float(np.mean(seconds)) for name, seconds in taken.items()}

"""The history of each gradient: the update that applied it, and when others read that update.

Under SSP(s), iteration t reads all updates of clocks up to t - s - 1 and all of the worker's own;
later ones if they have arrived by then (best effort), and none of clocks beyond t + s - 1. Source:
Ho et al., NeurIPS 2013.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from dpsim.base.arrays import IntArray, RealArray
from dpsim.engine import NEVER, Gradients
from dpsim.strategy.sync import DROPPED

_UNREAD = -1


class GradientHistory(NamedTuple):
    """The gradient of ``worker`` in iteration ``clock``, from reading to applying.

    It was computed on version ``read`` from ``begun_s`` to ``done_s``. ``update`` applied it at
    ``applied_s``; ``staleness`` is the number of updates applied between reading and applying.
    ``first_read``: the smallest and largest number of iterations after its own in which the other
    workers first read it; None if none did or each worker has a model of its own.
    """

    worker: int
    clock: int
    begun_s: float
    done_s: float | None
    read: int
    fate: Literal["applied", "dropped", "not applied before the end"]
    update: int | None
    applied_s: float | None
    staleness: int | None
    first_read: tuple[int, int] | None


def gradient_histories(
    gradients: Gradients, times: RealArray, *, shared: bool = True, own_reads: bool = False
) -> list[GradientHistory]:
    """Return the history of each gradient; ``times`` (s) are those of the updates.

    ``shared``: all workers share one sequence of parameters.
    """
    firsts = first_reads(gradients, own_reads=own_reads) if shared else None
    return [_history(entry, gradients, times, firsts) for entry in range(len(gradients.worker))]


def first_reads(gradients: Gradients, *, own_reads: bool = False) -> IntArray:
    """Return the first iteration of each worker that read each gradient's update.

    Shape (gradients, workers); -1 if none did. With ``own_reads`` a worker has its own gradient in
    the next iteration, before the update brings it.
    """
    workers = int(gradients.worker.max()) + 1
    firsts = np.full((len(gradients.worker), workers), _UNREAD)
    used = (gradients.update != DROPPED) & (gradients.update != NEVER)
    for worker in range(workers):
        of_worker = gradients.worker == worker
        order = np.argsort(gradients.clock[of_worker])
        clocks = gradients.clock[of_worker][order]
        # The versions are sorted too, because a worker never reads an older version than before.
        versions_read = gradients.read[of_worker][order]
        # Update u makes version u + 1, so the first read above u is the first that includes it.
        index = np.searchsorted(versions_read, gradients.update, side="right")
        read = (index < len(versions_read)) & used
        firsts[read, worker] = clocks[index[read]]
        if own_reads:
            following = gradients.clock[of_worker] + 1
            is_read = used[of_worker] & (following <= clocks[-1])
            firsts[of_worker, worker] = np.where(is_read, following, _UNREAD)
    return firsts


def _history(
    entry: int, gradients: Gradients, times: RealArray, firsts: IntArray | None
) -> GradientHistory:
    worker = int(gradients.worker[entry])
    clock = int(gradients.clock[entry])
    read = int(gradients.read[entry])
    update = int(gradients.update[entry])
    done = float(gradients.done[entry])
    applied = update not in (DROPPED, NEVER)
    unused: Literal["dropped", "not applied before the end"] = (
        "dropped" if update == DROPPED else "not applied before the end"
    )
    return GradientHistory(
        worker,
        clock,
        begun_s=float(gradients.begun[entry]),
        done_s=None if np.isnan(done) else done,
        read=read,
        fate="applied" if applied else unused,
        update=update if applied else None,
        applied_s=float(times[update]) if applied else None,
        staleness=update - read if applied and firsts is not None else None,
        first_read=None if firsts is None else _read_by_others(firsts[entry], worker, clock),
    )


def _read_by_others(firsts: IntArray, worker: int, clock: int) -> tuple[int, int] | None:
    """Return after how many iterations other workers first read a gradient: least and most."""
    others = np.delete(firsts, worker)
    gaps = others[others != _UNREAD] - clock
    return (int(gaps.min()), int(gaps.max())) if len(gaps) else None

"""What became of each gradient: which update it was part of, and when the others read that.

Under SSP(s) the rule is: iteration t reads all updates of clocks up to t - s - 1 and all of its
own; those of later clocks as they have come by then (best effort), and none of clocks beyond t + s
- 1. Source: Ho et al., NeurIPS 2013.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from dpsim.base.arrays import IntArray, RealArray
from dpsim.engine import DROPPED, NEVER, Gradients


class Fate(NamedTuple):
    """The gradient of ``worker`` in iteration ``clock``, computed on version ``read`` from
    ``begun_s`` to ``done_s``.

    ``update`` applied it at ``applied_s``; ``staleness``: updates applied between reading and that.
    ``first_read``: the least and the most of the iterations in which the others read it first, less
    its own; None where nobody did or models are their own.
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


def fates(
    gradients: Gradients, times: RealArray, *, shared: bool = True, own_reads: bool = False
) -> list[Fate]:
    """A fate for each gradient; ``times`` (s) are those of the updates.

    ``shared``: versions are of parameters that all share.
    """
    firsts = first_reads(gradients, own_reads=own_reads) if shared else None
    return [_fate(entry, gradients, times, firsts) for entry in range(len(gradients.worker))]


def first_reads(gradients: Gradients, *, own_reads: bool = False) -> IntArray:
    """The first iteration of each worker that read each gradient's update, (gradients, workers); -1
    where none did.

    With ``own_reads`` a worker has its own gradient in the next iteration, before the update brings
    it.
    """
    workers = int(gradients.worker.max()) + 1
    firsts = np.full((len(gradients.worker), workers), -1)
    lost = (gradients.update == DROPPED) | (gradients.update == NEVER)
    for worker in range(workers):
        mine = gradients.worker == worker
        order = np.argsort(gradients.clock[mine])
        reads, clocks = gradients.read[mine][order], gradients.clock[mine][order]
        place = np.searchsorted(reads, gradients.update, side="right")
        read = (place < len(reads)) & ~lost
        firsts[read, worker] = clocks[place[read]]
        if own_reads:
            next_ = gradients.clock[mine] + 1
            firsts[mine, worker] = np.where(~lost[mine] & (next_ <= clocks[-1]), next_, -1)
    return firsts


def _fate(entry: int, gradients: Gradients, times: RealArray, firsts: IntArray | None) -> Fate:
    worker, clock, read, update = (
        int(getattr(gradients, name)[entry]) for name in ("worker", "clock", "read", "update")
    )
    done = float(gradients.done[entry])
    applied = update not in (DROPPED, NEVER)
    gaps: list[int] = []
    if firsts is not None:
        row = np.delete(firsts[entry], worker)
        gaps = (row[row >= 0] - clock).tolist()
    return Fate(
        worker,
        clock,
        float(gradients.begun[entry]),
        None if np.isnan(done) else done,
        read,
        "applied" if applied else "dropped" if update == DROPPED else "not applied before the end",
        update if applied else None,
        float(times[update]) if applied else None,
        update - read if applied and firsts is not None else None,
        (min(gaps), max(gaps)) if gaps else None,
    )

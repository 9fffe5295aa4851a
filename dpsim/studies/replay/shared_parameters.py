"""Replay workers that share one sequence of parameters.

Each update makes a version; a gradient is computed on the version that was read.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dpsim.base.arrays import IntArray, RealArray
from dpsim.engine import NEVER, Gradients
from dpsim.strategy.sync import DROPPED
from dpsim.studies.replay.aggregators import Aggregate
from dpsim.studies.replay.codec_links import CodecLink
from dpsim.studies.replay.curve import CurveRecorder
from dpsim.studies.replay.trainer import Trainer


class SharedParameters:
    """Parameters updated by the changes that ``aggregate`` returns.

    ``back`` is the link by which servers send them. When a gradient is needed, all that can be
    computed are computed at once, because each depends only on its version. ``own_reads``: a worker
    that reads an old version adds its own gradients that the version lacks.
    """

    def __init__(
        self,
        trainer: Trainer,
        gradients: Gradients,
        aggregate: Aggregate,
        back: CodecLink,
        *,
        own_reads: bool,
    ) -> None:
        self.parameters = trainer.start()
        self._trainer = trainer
        self._aggregate = aggregate
        self._back = back
        self._own_reads = own_reads
        self._worker, self._clock = gradients.worker, gradients.clock
        self._read, self._update = gradients.read, gradients.update
        self._rate = trainer.config.learning_rate
        # Gradients that will be applied, in the order of their versions; those before `_next` have
        # been started.
        order = np.lexsort((self._clock, self._read))
        self._waiting = order[(self._update[order] != DROPPED) & (self._update[order] != NEVER)]
        self._next = 0
        self._versions = {0: self.parameters}
        self._computed: dict[int, RealArray] = {}
        self._own: dict[int, list[tuple[int, RealArray]]] = {}

    def run(self, times: list[float], recorder: CurveRecorder) -> RealArray:
        """Apply the updates at ``times``; return the final parameters (P,)."""
        members = _by_update(self._update, len(times))
        samples = 0
        if recorder.is_due(0):
            recorder.record(0, 0.0, 0, self.parameters[None], self.parameters[None])
        for update, time in enumerate(times):
            samples += len(members[update]) * self._trainer.batch
            self._apply(update, members[update])
            if recorder.is_due(update + 1):
                shown = self.parameters[None]
                recorder.record(update + 1, time, samples, shown, shown)
        return self.parameters

    def _apply(self, update: int, members: IntArray) -> None:
        entries = members.tolist()
        if any(entry not in self._computed for entry in entries):
            self._compute(update)
        if entries:
            gradients = np.stack([self._computed.pop(entry) for entry in entries])
            direction = self._aggregate(self._worker[members], gradients)
            self.parameters = self.parameters - self._back.carry(self._rate * direction)
        self._versions[update + 1] = self.parameters
        self._forget_before(update + 1)

    def _forget_before(self, newest: int) -> None:
        """Free versions that will not be read again."""
        oldest = newest
        if self._next < len(self._waiting):
            oldest = min(int(self._read[self._waiting[self._next]]), newest)
        for version in list(self._versions):
            if version < oldest:
                del self._versions[version]

    def _compute(self, update: int) -> None:
        """Compute all missing gradients at versions up to ``update``.

        With ``own_reads``, a worker's gradients are computed one after the other.
        """
        # `_waiting` is sorted by version.
        end = int(np.searchsorted(self._read[self._waiting], update, side="right"))
        ready, self._next = self._waiting[self._next : end], end
        for batch in self._batches(ready):
            workers, clocks = self._worker[batch], self._clock[batch]
            gradients = self._trainer.gradients(workers, clocks, self._parameters_of(batch))
            for entry, gradient in zip(batch.tolist(), gradients, strict=True):
                self._computed[entry] = gradient
                if self._own_reads:
                    worker = int(self._worker[entry])
                    made = (int(self._update[entry]), gradient)
                    self._own.setdefault(worker, []).append(made)

    def _batches(self, ready: IntArray) -> list[IntArray]:
        """Split ``ready`` into parts that can be computed at once: all, or single iterations."""
        if not self._own_reads:
            return [ready]
        # A worker's parameters include its own gradient of the previous iteration.
        clocks = self._clock[ready]
        return [ready[clocks == clock] for clock in np.unique(clocks)]

    def _parameters_of(self, entries: IntArray) -> RealArray:
        """Return the parameters for each worker's gradient (n, P), (1, P) if all are the same."""
        reads = self._read[entries]
        if self._own_reads:
            held = [
                self._versions[read] - self._lacking(entry)
                for entry, read in zip(entries.tolist(), reads.tolist(), strict=True)
            ]
            return np.stack(held)
        # If all are on one version, as with BSP, one row saves memory.
        if (reads == reads[0]).all():
            reads = reads[:1]
        return np.stack([self._versions[read] for read in reads.tolist()])

    def _lacking(self, entry: int) -> RealArray | float:
        """Return the change by the worker's own gradients that its version lacks."""
        worker, read = int(self._worker[entry]), int(self._read[entry])
        kept = self._own[worker] = [
            (update, own) for update, own in self._own.get(worker, []) if update >= read
        ]
        if not kept:
            return 0.0
        # Scale the gradients like the update.
        parts = 1 if self._trainer.config.reduction == "sum" else self._trainer.workers
        nothing = np.zeros(self._trainer.network.parameters)
        return sum((own for _, own in kept), start=nothing) * self._rate / parts


def _by_update(update: IntArray, updates: int) -> list[IntArray]:
    """Return the gradients of each update, in the order in which workers read."""
    order = np.argsort(update, kind="stable")
    bounds = np.searchsorted(update[order], np.arange(updates + 1))
    return [order[begin:end] for begin, end in pairwise(bounds.tolist())]

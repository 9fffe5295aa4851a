"""Replays workers that share one sequence of parameters.

An update makes a version, and gradients are those at versions read.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dpsim.base.arrays import IntArray, RealArray
from dpsim.engine import DROPPED, NEVER, Gradients
from dpsim.studies.replay.crew import Crew
from dpsim.studies.replay.curve import Watch
from dpsim.studies.replay.uplinks import Link, Uplink


class SharedParameters:
    """Parameters that move by ``uplink``'s changes; ``back`` is how servers send them, lossless if
    None.

    Nothing depends on when a gradient is computed, only on the version: when one is needed, all
    that can be computed are, at once. ``own_reads``: a worker that reads an old version adds to it
    what it has computed itself and the version lacks.
    """

    def __init__(
        self,
        crew: Crew,
        gradients: Gradients,
        uplink: Uplink,
        back: Link | None,
        *,
        own_reads: bool,
    ) -> None:
        self.parameters = crew.start()
        self._crew, self._uplink, self._back, self._own_reads = crew, uplink, back, own_reads
        self._worker, self._clock, self._update = (
            gradients.worker,
            gradients.clock,
            gradients.update,
        )
        self._read = gradients.read
        order = np.lexsort((self._clock, self._read))
        self._waiting = order[(self._update[order] != DROPPED) & (self._update[order] != NEVER)]
        self._begun = 0
        self._versions = {0: self.parameters}
        self._found: dict[int, RealArray] = {}
        self._own: dict[int, list[tuple[int, RealArray]]] = {}
        self._rate = crew.config.learning_rate

    def run(self, times: list[float], watch: Watch) -> RealArray:
        """Apply all updates, those of ``times``; returns the final parameters (P,)."""
        members = _by_update(self._update, len(times))
        samples = 0
        if watch.wants(0):
            watch.note(0, 0.0, 0, self.parameters[None])
        for update, time in enumerate(times):
            samples += len(members[update]) * self._crew.batch
            self._apply(update, members[update])
            if watch.wants(update + 1):
                watch.note(update + 1, time, samples, self.parameters[None])
        return self.parameters

    def _apply(self, update: int, members: IntArray) -> None:
        if any(each not in self._found for each in members.tolist()):
            self._compute(update)
        if len(members):
            found = np.stack([self._found.pop(each) for each in members.tolist()])
            change = self._rate * self._uplink.change(self._worker[members], found)
            self.parameters = self.parameters - (
                change if self._back is None else self._back.carry(change)
            )
        self._versions[update + 1] = self.parameters
        first = (
            self._read[self._waiting[self._begun]]
            if self._begun < len(self._waiting)
            else update + 1
        )
        for old in [version for version in self._versions if version < min(first, update + 1)]:
            del self._versions[old]

    def _compute(self, update: int) -> None:
        """All gradients at versions up to ``update`` that are not there yet; a worker's one after
        the other if it reads its own.
        """
        end = int(np.searchsorted(self._read[self._waiting], update, side="right"))
        ready, self._begun = self._waiting[self._begun : end], end
        waves = (
            [ready[self._clock[ready] == clock] for clock in np.unique(self._clock[ready])]
            if self._own_reads
            else [ready]
        )
        for wave in waves:
            found = self._crew.gradients(self._worker[wave], self._clock[wave], self._held(wave))
            self._found.update(zip(wave.tolist(), found, strict=True))
            if self._own_reads:
                for each, gradient in zip(wave.tolist(), found, strict=True):
                    self._own.setdefault(int(self._worker[each]), []).append(
                        (int(self._update[each]), gradient)
                    )

    def _held(self, entries: IntArray) -> RealArray:
        """The parameters that each worker computes on (n, P), (1, P) if all are the same."""
        reads = self._read[entries]
        if not self._own_reads:
            return np.stack(
                [
                    self._versions[read]
                    for read in (reads[:1] if (reads == reads[0]).all() else reads).tolist()
                ]
            )
        return np.stack(
            [
                self._versions[int(self._read[each])] - self._lacking(each)
                for each in entries.tolist()
            ]
        )

    def _lacking(self, entry: int) -> RealArray | float:
        """What the worker's own gradients that its version lacks will change."""
        worker, read = int(self._worker[entry]), int(self._read[entry])
        kept = self._own[worker] = [
            (update, own) for update, own in self._own.get(worker, []) if update >= read
        ]
        parts = 1 if self._crew.config.reduction == "sum" else self._crew.workers
        return (
            sum((own for _, own in kept), start=np.zeros(self._crew.network.parameters))
            * self._rate
            / parts
            if kept
            else 0.0
        )


def _by_update(update: IntArray, updates: int) -> list[IntArray]:
    """The gradients of each update, in the order of the workers' reading."""
    order = np.argsort(update, kind="stable")
    bounds = np.searchsorted(update[order], np.arange(updates + 1))
    return [order[begin:end] for begin, end in pairwise(bounds.tolist())]

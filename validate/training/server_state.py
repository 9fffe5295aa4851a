"""What a parameter server holds: weights, and the gate by which workers read and add to them.

The gate is the simulator's own (`dpsim.strategy.sync.Gate`), so that a run here and a prediction
follow the same rule. A change is added to the weights at once where each is an update, or with all
others of its update, in the order in which they came; one that comes too late is dropped. What a
worker goes on with is copied at the moment when it may go on: all who wait for the same update read
the same weights.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor

from dpsim.strategy.sync import Gate, GradientOutcome
from validate.ranks.gatekeeper import Gatekeeper

READ, PUSHED, UPDATED, DROPPED = "read", "pushed", "updated", "dropped"
Note = Callable[[str, int, int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class Change:
    """What the iteration ``clock`` of a worker adds to the weights."""

    worker: int
    clock: int
    vector: Tensor


class ServerState:
    """Weights that ``workers`` workers read and add to; called from a thread per worker.

    ``scale`` multiplies each change. ``is_over(clock, version)`` says whether a worker that has
    done ``clock`` iterations begins none on that version. Whoever waits for more than
    ``patience_s`` gets a TimeoutError.
    """

    def __init__(
        self,
        weights: Tensor,
        workers: int,
        gate: Gate,
        note: Note,
        is_over: Callable[[int, int], bool],
        scale: float = 1.0,
        patience_s: float = 60.0,
    ) -> None:
        self.weights = weights
        self.patience_s = patience_s
        self._scale = scale
        self._note = note
        self._is_over = is_over
        self._gate = gate
        self._held: list[Change] = []
        self._newest = (0, weights.clone())
        self._readable: dict[int, tuple[int, Tensor]] = {}
        self._keeper = Gatekeeper(gate, self._goes_on)
        # The first weights are read without a gradient handed over before.
        for worker in range(workers):
            self._goes_on(worker, 0, 0)

    def read(self, worker: int) -> tuple[int, Tensor]:
        """The version that the worker goes on with and its weights, when it may go on."""
        self._keeper.wait(worker, self.patience_s)
        return self._readable[worker]

    def push(self, worker: int, vector: Tensor) -> None:
        """The worker's iteration is over, and adds ``vector``, if that still counts."""

        # Called while the gate is locked: no thread may push or read between the gate's word that
        # an update is made and the weights that it makes.
        def count(outcome: GradientOutcome) -> None:
            change = Change(worker, self._gate.clocks[worker] - 1, vector)
            self._count(change, outcome)

        self._keeper.hand_over(worker, count)

    def _count(self, change: Change, outcome: GradientOutcome) -> None:
        # The gate has judged already: with the gradient that completes an update it has moved on.
        committed = self._gate.version
        before = committed - 1 if outcome is GradientOutcome.APPLIED else committed
        self._note(PUSHED, change.worker, change.clock, before)
        if outcome is GradientOutcome.DROPPED:
            self._note(DROPPED, change.worker, change.clock, before)
            return
        self._held.append(change)
        if outcome is GradientOutcome.HELD:
            return
        for each in self._held:
            self.weights.add_(each.vector, alpha=self._scale)
            self._note(UPDATED, each.worker, each.clock, committed)
        self._held = []

    def _goes_on(self, worker: int, staleness: int, version: int) -> None:
        """Keep what it reads; all who read one version share one copy, which nobody changes."""
        if self._newest[0] != version:
            self._newest = version, self.weights.clone()
        self._readable[worker] = self._newest
        clock = self._gate.clocks[worker]
        if not self._is_over(clock, version):
            self._note(READ, worker, clock, version)
